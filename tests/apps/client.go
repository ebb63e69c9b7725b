package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

// get asks for a URL as programs in Go do, and prints the status and the body.
func get(url string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Println(answer.StatusCode)
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
