package main

import (
	"net/http"

	"github.com/gorilla/websocket"
)

// serveWebSocket echoes every message.
func serveWebSocket(l *countingListener, _ options, _ *readiness) error {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, message, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
}
