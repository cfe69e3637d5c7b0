//! What a program passes as a module: PTX text, a fat binary, machine code.

use core::ffi::{c_char, c_void};

use grapture_sys::*;

use super::fatbin;
use crate::abi::Ptr;
use crate::ptx::{self, CompileErrorKind};

/// `\x7fELF`.
const ELF: u32 = 0x464c_457f;
/// The machine number of NVIDIA's machine code.
const ELF_CUDA: u16 = 190;
/// The start of a fat binary.
const FATBIN: u32 = 0xba55_ed50;
/// The start of the struct that points to a fat binary.
const FATBIN_WRAPPER: u32 = 0x4662_43b1;
/// The bytes of a fat binary's header.
pub(super) const FATBIN_HEADER: usize = 16;

/// The newest PTX version that a driver version takes: (driver, PTX), from new to old.
const PTX_VERSIONS: &[(i32, (u32, u32))] = &[
    (13_000, (9, 0)),
    (12_090, (8, 8)),
    (12_080, (8, 7)),
    (12_070, (8, 6)),
    (12_050, (8, 5)),
    (12_040, (8, 4)),
    (12_030, (8, 3)),
    (12_020, (8, 2)),
    (12_010, (8, 1)),
    (12_000, (8, 0)),
    (11_080, (7, 8)),
    (11_070, (7, 7)),
    (11_060, (7, 6)),
    (11_050, (7, 5)),
    (11_040, (7, 4)),
    (11_030, (7, 3)),
    (11_020, (7, 2)),
    (11_010, (7, 1)),
    (11_000, (7, 0)),
    (10_020, (6, 5)),
    (10_010, (6, 4)),
    (10_000, (6, 3)),
    (0, (6, 2)),
];

/// PTX text that a program passed, or why there is none.
#[derive(Debug)]
pub(crate) struct Image {
    text: String,
}

/// Why an image is no module: the code, and the line for the error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// What the driver answers.
    pub(crate) code: CUresult,
    /// What the error log says.
    pub(crate) log: String,
}

pub(super) fn refused(code: CUresult, log: impl Into<String>) -> Refused {
    Refused { code, log: log.into() }
}

impl From<CUresult> for Refused {
    fn from(code: CUresult) -> Refused {
        refused(code, "")
    }
}

impl Image {
    /// Takes the PTX out of an image, for a device of a compute capability (90 for 9.0).
    pub(crate) fn read(image: Ptr<c_void>, device: u32) -> Result<Image, Refused> {
        let first: u8 = image.cast().read()?;
        // Text may be shorter than a magic number: one whose first byte could be text is told by
        // its second, which is there because the first is not the end.
        let [fatbin, next, ..] = FATBIN.to_le_bytes();
        let is_binary = match first {
            0x7f => true,
            byte if byte == fatbin => image.cast::<u8>().at(1)?.read()? == next,
            byte => !byte.is_ascii(),
        };
        if !is_binary {
            return Image::of_text(image);
        }
        match magic(image)? {
            ELF => Err(elf(image)?),
            FATBIN_WRAPPER => {
                // The struct: two words, then the pointer.
                let data = image.cast::<*mut c_void>().pointee(1)?;
                Image::of_fatbin(data, device)
            }
            FATBIN => Image::of_fatbin(image, device),
            _ => Err(refused(CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX nor a binary")),
        }
    }

    /// Takes what was read from a file.
    pub(crate) fn of_file(mut bytes: Vec<u8>, device: u32) -> Result<Image, Refused> {
        if bytes.is_ascii() {
            let text = String::from_utf8(bytes).unwrap_or_default();
            return Ok(Image { text });
        }
        let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        let size = word(8).map_or(0, u64::from_le_bytes);
        let is_fatbin = bytes.starts_with(&FATBIN.to_le_bytes());
        if is_fatbin && FATBIN_HEADER as u64 + size > bytes.len() as u64 {
            return Err(refused(CUDA_ERROR_INVALID_IMAGE, "the fat binary is cut off"));
        }
        if bytes.starts_with(&FATBIN_WRAPPER.to_le_bytes()) {
            return Err(refused(CUDA_ERROR_INVALID_IMAGE, "the file points into memory"));
        }
        // An ELF header is read without a look at the length.
        bytes.resize(bytes.len() + 64, 0);
        // SAFETY: the buffer outlives the call. Of an ELF file less than 64 bytes are read, of a
        // fat binary no more than its header says, which lies in the buffer as checked above;
        // nothing else is read beyond its first word.
        let image = unsafe { Ptr::trust(bytes.as_ptr().cast()) };
        Image::read(image, device)
    }

    /// The text.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn of_text(image: Ptr<c_void>) -> Result<Image, Refused> {
        let text = image.cast::<c_char>().text()?.to_str();
        let text = text.map_err(|_| refused(CUDA_ERROR_INVALID_IMAGE, "the image is not text"))?;
        Ok(Image { text: text.to_owned() })
    }

    /// The PTX of a fat binary that suits this device best.
    fn of_fatbin(image: Ptr<c_void>, device: u32) -> Result<Image, Refused> {
        if magic(image)? != FATBIN {
            return Err(refused(CUDA_ERROR_INVALID_IMAGE, "the fat binary has no header"));
        }
        let text = fatbin::best_ptx(image, device)?.ok_or_else(no_ptx)?;
        Ok(Image { text })
    }

    /// Compiles it for a driver version and a device of a compute capability.
    pub(crate) fn compile(&self, driver: i32, device: u32) -> Result<ptx::Module, Refused> {
        let version = directive(&self.text, ".version").ok_or_else(|| {
            refused(CUDA_ERROR_INVALID_IMAGE, "the image does not begin with .version")
        })?;
        let newest = PTX_VERSIONS.iter().find(|(since, _)| *since <= driver).map(|(_, ptx)| *ptx);
        let wanted = version.split_once('.').and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        if wanted > newest {
            return Err(refused(
                CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                format!("line 1: the PTX version {version} is newer than the driver's"),
            ));
        }
        let module = ptx::Module::compile(&self.text).map_err(|error| {
            let code = match error.kind {
                CompileErrorKind::Invalid => CUDA_ERROR_INVALID_PTX,
                CompileErrorKind::Version => CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                CompileErrorKind::Unsupported => CUDA_ERROR_NOT_SUPPORTED,
            };
            refused(code, error.to_string())
        })?;
        match capability(module.target()) {
            Some(capability) if capability <= device => Ok(module),
            _ => Err(refused(
                CUDA_ERROR_INVALID_PTX,
                format!("the target {} is not for this device, sm_{device}", module.target()),
            )),
        }
    }
}

fn magic(image: Ptr<c_void>) -> Result<u32, CUresult> {
    let bytes = image.cast::<u8>();
    let mut word = [0; 4];
    for (index, byte) in word.iter_mut().enumerate() {
        *byte = bytes.at(index)?.read()?;
    }
    Ok(u32::from_le_bytes(word))
}

/// Machine code cannot run here; other ELF files are no module at all.
fn elf(image: Ptr<c_void>) -> Result<Refused, CUresult> {
    let machine = image.cast::<u16>().at(9)?.read()?;
    Ok(if machine == ELF_CUDA {
        no_ptx()
    } else {
        refused(CUDA_ERROR_INVALID_IMAGE, "the ELF file is not for this device")
    })
}

fn no_ptx() -> Refused {
    refused(
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        "the image has no PTX for this device: the simulated device runs PTX only, so ship PTX \
         beside the machine code",
    )
}

/// What follows the directive that the text begins with, comments aside.
fn directive<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text.trim_start();
    loop {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n')?.1.trim_start();
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1.trim_start();
        } else {
            return rest.strip_prefix(name)?.split_whitespace().next();
        }
    }
}

/// The compute capability that a target names, 10 × major + minor: 90 of `sm_90a`.
pub(super) fn capability(target: &str) -> Option<u32> {
    let number = target.strip_prefix("sm_")?;
    number.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, driver: i32) -> Option<u32> {
        let image = Image { text: text.to_owned() };
        image.compile(driver, 90).err().map(|refused| refused.code.0)
    }

    #[test]
    fn versions_and_targets_are_held_against_the_driver() {
        let with = |version, target| {
            format!(
                "// a comment\n.version {version}\n.target {target}\n.address_size 64\n\
                 .visible .entry k() {{ ret; }}\n"
            )
        };
        assert_eq!(code("hello", 13_000), Some(200));
        assert_eq!(code("", 13_000), Some(200));
        assert_eq!(code(&with("99.4", "sm_50"), 13_000), Some(222));
        assert_eq!(code(&with("8.0", "sm_50"), 11_080), Some(222));
        assert_eq!(code(&with("8.4", "sm_200"), 13_000), Some(218));
        assert_eq!(code(&with("8.7", "sm_100"), 13_000), Some(218));
        assert_eq!(code(&with("8.0", "sm_90a"), 12_000), None);
    }
}
