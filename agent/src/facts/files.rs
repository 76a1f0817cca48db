//! Facts as they stand in files of the kernel; `None` where a file cannot be read.

pub fn line_of(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

pub fn words_of(path: &str) -> Option<Vec<String>> {
    Some(
        line_of(path)?
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect(),
    )
}

pub fn number_of(path: &str) -> Option<u64> {
    line_of(path)?.parse().ok()
}

pub fn numbers_of(path: &str) -> Option<Vec<u64>> {
    words_of(path)?
        .iter()
        .map(|word| word.parse().ok())
        .collect()
}

/// The value of the first line `key : value` of a file.
pub fn value_in(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}
