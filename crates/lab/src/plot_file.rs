//! The file of a plot. It is checked before the work that the plot will show.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Parses a path, and checks that a file can be written there.
pub(crate) fn plot_file(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    if file.file_name().is_none() {
        return Err("names no file".to_owned());
    }
    if file.is_dir() {
        return Err("is a folder; name a file in it".to_owned());
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match file.exists() {
        true => access(&file, Access::WRITE_OK)
            .map_err(|error| format!("cannot be written: {error}"))?,
        false => access(folder, Access::WRITE_OK)
            .map_err(|error| format!("nothing can be written to {}: {error}", folder.display()))?,
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_needs_a_folder_that_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(plot_file(&path("a.svg")), Ok(folder.path().join("a.svg")));
        assert!(plot_file(&path("none/a.svg")).is_err_and(|why| why.contains("none")));
        assert!(plot_file(&path("")).is_err_and(|why| why.contains("folder")));
        assert!(plot_file("").is_err());
        assert!(!folder.path().join("a.svg").exists());
    }
}
