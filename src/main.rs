//! Entry point of the `ringway` binary.
fn main() {}
