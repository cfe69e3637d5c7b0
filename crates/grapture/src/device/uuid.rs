//! [`Uuid`]: the identity of a device.

use std::fmt;

/// The identity of a device. It shows as `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, the form in
/// which NVIDIA's tools write it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 0 | 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn shows_as_nvidia_writes_it() {
        let bytes = std::array::from_fn(|index| index as u8 * 0x11);
        assert_eq!(Uuid(bytes).to_string(), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
