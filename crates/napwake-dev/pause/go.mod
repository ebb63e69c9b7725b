module napwake.dev/pause

go 1.25.0
