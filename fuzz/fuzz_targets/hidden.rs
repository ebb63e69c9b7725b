#![no_main]

libfuzzer_sys::fuzz_target!(|target: &str| napwake_gate::caller::fuzz_hidden(target));
