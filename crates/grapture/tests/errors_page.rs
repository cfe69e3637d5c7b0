//! The page on errors says what the errors say.

use grapture::CudaError;

const PAGE: &str = include_str!("../../../docs/errors.md");

#[test]
fn every_code_of_captures_is_on_the_page_with_its_remedy() {
    for code in (900..=908).chain([910, 720, 912]) {
        let error = CudaError::from_code(code);
        let remedy = error.remedy().unwrap_or_else(|| panic!("{code} has no remedy"));
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| {code} `{error:?}` |")));
        let row = row.unwrap_or_else(|| panic!("{code} is not on the page"));
        assert!(row.ends_with(&format!("| {remedy} |")), "{row}");
        assert!(error.to_string().ends_with(&format!(": {remedy}")), "{error}");
    }
    assert_eq!(CudaError::InvalidValue.remedy(), None);
}

#[test]
fn a_plain_code_ends_with_what_to_do() {
    assert_eq!(
        CudaError::StreamCaptureImplicit.to_string(),
        "the legacy stream cannot depend on a capturing stream \
         (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906): capture a stream made with `Stream::new`, which \
         does not block, or keep off the legacy stream until the capture has ended"
    );
    assert_eq!(
        CudaError::OutOfMemory.to_string(),
        "not enough memory for the request (CUDA_ERROR_OUT_OF_MEMORY, 2)"
    );
}
