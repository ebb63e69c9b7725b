#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napwake_gate::verdict::fuzz_verdict(bytes));
