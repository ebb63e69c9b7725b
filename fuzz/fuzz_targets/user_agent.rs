#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napwake_gate::caller::fuzz_user_agent(bytes));
