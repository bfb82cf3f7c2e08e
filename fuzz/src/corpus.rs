//! The inputs that are kept of a target: one gzip file, each input after its length.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;

/// The inputs of a file that `pack.py` has made.
pub fn read(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut file = GzDecoder::new(std::fs::File::open(path)?);
    let mut inputs = Vec::new();
    let mut length = [0; 4];
    while file.read(&mut length[..1])? == 1 {
        file.read_exact(&mut length[1..])?;
        let length = u32::from_le_bytes(length);
        let mut input = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact(&mut input)?;
        inputs.push(input);
    }
    Ok(inputs)
}
