//! Fat binaries: one program for several devices, as machine code and as PTX.

use core::ffi::c_void;

use grapture_sys::CUDA_ERROR_INVALID_IMAGE;

use super::image::{FATBIN_HEADER, Refused, refused};
use crate::abi::Ptr;

/// The bytes of an entry's header that are read.
const ENTRY_HEADER: usize = 64;
/// The kind of an entry that is PTX.
const ENTRY_PTX: u16 = 1;
/// The flag of an entry that is compressed as a block of LZ4.
const LZ4: u64 = 0x2000;
/// The flag of an entry that is compressed as a frame of Zstandard.
const ZSTANDARD: u64 = 0x8000;
/// The longest text that is unpacked.
const LONGEST: u64 = 1 << 30;

/// The start of an entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: u16,
    header_bytes: usize,
    content_bytes: usize,
    /// The bytes that are compressed; the content may be longer.
    compressed_bytes: u32,
    /// The device, 10 × major + minor of its capability.
    capability: u32,
    flags: u64,
    unpacked_bytes: u64,
}

/// The PTX in a fat binary that is for the newest device which is not newer than this one, given
/// by its compute capability (90 for 9.0).
pub(super) fn best_ptx(image: Ptr<c_void>, device: u32) -> Result<Option<String>, Refused> {
    let bytes = image.cast::<u8>();
    let header = usize::from(image.cast::<u16>().at(3)?.read()?);
    let size = image.cast::<u64>().at(1)?.read()? as usize;
    if header != FATBIN_HEADER {
        return Err(refused(CUDA_ERROR_INVALID_IMAGE, "the fat binary's header is unknown"));
    }
    let end = header.checked_add(size).ok_or_else(cut_off)?;
    let mut best: Option<(Entry, usize)> = None;
    let mut at = header;
    while at < end {
        if end - at < ENTRY_HEADER {
            return Err(cut_off());
        }
        let entry = Entry::read(bytes.at(at)?)?;
        let whole = entry.header_bytes.checked_add(entry.content_bytes).ok_or_else(cut_off)?;
        if whole == 0 || whole > end - at {
            return Err(cut_off());
        }
        let fits = entry.kind == ENTRY_PTX && entry.capability <= device;
        if fits && best.is_none_or(|(known, _)| known.capability < entry.capability) {
            best = Some((entry, at));
        }
        at += whole;
    }
    let Some((entry, at)) = best else { return Ok(None) };
    let content = bytes.at(at + entry.header_bytes)?.read_all(entry.content_bytes)?;
    let text = entry.unpack(content)?;
    Ok(Some(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()))
}

fn cut_off() -> Refused {
    refused(CUDA_ERROR_INVALID_IMAGE, "the fat binary is cut off")
}

impl Entry {
    fn read(entry: Ptr<u8>) -> Result<Entry, Refused> {
        Ok(Entry {
            kind: entry.cast::<u16>().read()?,
            header_bytes: entry.cast::<u32>().at(1)?.read()? as usize,
            content_bytes: entry.cast::<u64>().at(1)?.read()? as usize,
            compressed_bytes: entry.cast::<u32>().at(4)?.read()?,
            capability: entry.cast::<u32>().at(7)?.read()?,
            flags: entry.cast::<u64>().at(5)?.read()?,
            unpacked_bytes: entry.cast::<u64>().at(7)?.read()?,
        })
    }

    /// The content, uncompressed.
    fn unpack(self, content: Vec<u8>) -> Result<Vec<u8>, Refused> {
        if self.flags & (LZ4 | ZSTANDARD) == 0 {
            return Ok(content);
        }
        let damaged = || refused(CUDA_ERROR_INVALID_IMAGE, "the compressed PTX is damaged");
        let packed = content.get(..self.compressed_bytes as usize).ok_or_else(damaged)?;
        if self.unpacked_bytes > LONGEST {
            return Err(damaged());
        }
        let mut text = vec![0; self.unpacked_bytes as usize];
        let length = if self.flags & LZ4 != 0 {
            lz4_flex::block::decompress_into(packed, &mut text).map_err(|_| damaged())?
        } else {
            let mut decoder = ruzstd::decoding::FrameDecoder::new();
            decoder.decode_all(packed, &mut text).map_err(|_| damaged())?
        };
        text.truncate(length);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Image;

    const TEXT: &str = ".version 8.0\n.target sm_50\n.address_size 64\n";

    /// A fat binary of some entries: kind, device, flags, content.
    fn fatbin(entries: &[(u16, u32, u64, &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (kind, capability, flags, content) in entries {
            let mut entry = vec![0; ENTRY_HEADER];
            entry[..2].copy_from_slice(&kind.to_le_bytes());
            entry[4..8].copy_from_slice(&(ENTRY_HEADER as u32).to_le_bytes());
            entry[8..16].copy_from_slice(&(content.len() as u64).to_le_bytes());
            entry[16..20].copy_from_slice(&(content.len() as u32).to_le_bytes());
            entry[28..32].copy_from_slice(&capability.to_le_bytes());
            entry[40..48].copy_from_slice(&flags.to_le_bytes());
            entry[56..64].copy_from_slice(&(TEXT.len() as u64).to_le_bytes());
            entry.extend(*content);
            all.extend(entry);
        }
        let mut bytes = 0xba55_ed50_u32.to_le_bytes().to_vec();
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend((FATBIN_HEADER as u16).to_le_bytes());
        bytes.extend((all.len() as u64).to_le_bytes());
        bytes.extend(all);
        // A file that is all ASCII would count as text.
        assert!(!bytes.is_ascii());
        bytes
    }

    fn text(bytes: Vec<u8>) -> String {
        Image::of_file(bytes, 90).unwrap().text().to_owned()
    }

    fn refusal(bytes: Vec<u8>) -> Refused {
        Image::of_file(bytes, 90).unwrap_err()
    }

    #[test]
    fn the_ptx_of_a_fat_binary_is_found() {
        assert_eq!(text(fatbin(&[(ENTRY_PTX, 50, 0, TEXT.as_bytes())])), TEXT);
        let machine = refusal(fatbin(&[(2, 90, 0, b"code")]));
        assert!(machine.code.0 == 209 && machine.log.contains("ship PTX"), "{machine:?}");
    }

    #[test]
    fn the_newest_ptx_that_is_not_too_new_is_taken() {
        let entries =
            [80, 90, 75, 100].map(|capability| (capability, format!("{TEXT}// {capability}")));
        let list: Vec<_> =
            entries.iter().map(|(c, text)| (ENTRY_PTX, *c, 0, text.as_bytes())).collect();
        assert!(text(fatbin(&list)).ends_with("// 90"));
        assert_eq!(refusal(fatbin(&list[3..])).code.0, 209);
    }

    #[test]
    fn a_damaged_fat_binary_is_refused() {
        for flags in [LZ4, ZSTANDARD] {
            assert_eq!(refusal(fatbin(&[(ENTRY_PTX, 50, flags, b"packed")])).code.0, 200);
        }
        let mut cut = fatbin(&[(ENTRY_PTX, 50, 0, TEXT.as_bytes())]);
        cut.pop();
        assert_eq!(refusal(cut).code.0, 200);
        let mut long = fatbin(&[(ENTRY_PTX, 50, 0, TEXT.as_bytes())]);
        long[24] = 0xff;
        assert_eq!(refusal(long).code.0, 200);
    }
}
