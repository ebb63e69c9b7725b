#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napwake_gate::pages::fuzz_page(bytes));
