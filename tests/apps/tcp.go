package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
)

// serveTCP sends its greeting, reads until the caller shuts its side, and
// answers with the hash and length of what it read.
func serveTCP(l *countingListener, o options, _ *readiness) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go converse(conn, o.greet)
	}
}

func converse(conn net.Conn, greet string) {
	defer conn.Close()
	if _, err := io.WriteString(conn, greet); err != nil {
		return
	}
	hash := sha256.New()
	n, err := io.Copy(hash, conn)
	if err == nil {
		fmt.Fprintf(conn, "%s %d\n", hex.EncodeToString(hash.Sum(nil)), n)
	}
}
