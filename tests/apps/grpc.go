package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// serveGRPC answers health checks, with reflection so that grpcurl needs no files.
func serveGRPC(l *countingListener, _ options, _ *readiness) error {
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	return server.Serve(l)
}
