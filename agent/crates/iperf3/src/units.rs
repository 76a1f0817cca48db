//! Parses and formats numbers in iperf3's notation: `128K`, `1.22 MBytes`, `10.2 Mbits/sec`.

/// The unit of printed rates (`-f`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateFormat {
    /// Bits with the prefix that fits the value.
    #[default]
    Adaptive,
    /// Bits with a prefix: a power of 1000 (k, m, g, t).
    Bits(usize),
    /// Bytes with a prefix: a power of 1024 (K, M, G, T).
    Bytes(usize),
}

impl RateFormat {
    /// Parses the letter of `-f`.
    pub fn parse(letter: &str) -> Option<Self> {
        let power = |letter: char| "kmgt".find(letter).map(|at| at + 1);
        let mut letters = letter.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) if letter.is_ascii_lowercase() => power(letter).map(Self::Bits),
            (Some(letter), None) => power(letter.to_ascii_lowercase()).map(Self::Bytes),
            _ => None,
        }
    }
}

/// A number as three digits and a prefix.
struct ScaledNumber {
    digits: String,
    /// One of `UNIT_PREFIXES`.
    prefix: &'static str,
}

const UNIT_PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];

/// Scales a number; `power` is that of the base, or `None` for the one that fits.
fn scale_number(value: f64, base: f64, power: Option<usize>) -> ScaledNumber {
    let mut prefix_index = power.unwrap_or(UNIT_PREFIXES.len());
    if prefix_index == UNIT_PREFIXES.len() {
        prefix_index = 0;
        while prefix_index + 1 < UNIT_PREFIXES.len() && value >= base.powi(prefix_index as i32 + 1)
        {
            prefix_index += 1;
        }
    }
    let value = value / base.powi(prefix_index as i32);
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    ScaledNumber {
        digits: format!("{value:.digits$}"),
        prefix: UNIT_PREFIXES[prefix_index],
    }
}

/// Formats an amount of data with prefixes of 1024, such as `1.22 MBytes`.
pub fn format_bytes(bytes: u64) -> String {
    let ScaledNumber { digits, prefix } = scale_number(bytes as f64, 1024.0, None);
    format!("{digits:>4} {prefix}Bytes")
}

/// Formats a rate, such as `10.2 Mbits/sec`; prefixes of bits are powers of 1000.
pub fn format_rate(bytes: u64, seconds: f64, format: RateFormat) -> String {
    let per_second = if seconds > 0.0 {
        bytes as f64 / seconds
    } else {
        0.0
    };
    let (base, value, power, unit) = match format {
        RateFormat::Adaptive => (1000.0, per_second * 8.0, None, "bits"),
        RateFormat::Bits(power) => (1000.0, per_second * 8.0, Some(power), "bits"),
        RateFormat::Bytes(power) => (1024.0, per_second, Some(power), "Bytes"),
    };
    let ScaledNumber { digits, prefix } = scale_number(value, base, power);
    format!("{digits:>4} {prefix}{unit}/sec")
}

/// Parses a count with an optional suffix (K, M, G, T); `base` is 1024 for bytes and 1000 for rates.
pub fn parse_count(text: &str, base: u64) -> Option<u64> {
    let (number, power) = match text.chars().last()?.to_ascii_lowercase() {
        letter @ ('k' | 'm' | 'g' | 't') => {
            (&text[..text.len() - 1], "kmgt".find(letter)? as i32 + 1)
        }
        _ => (text, 0),
    };
    let value: f64 = number.parse().ok()?;
    let whole = value * (base as f64).powi(power);
    (value.is_finite() && whole >= 0.0 && whole < u64::MAX as f64).then_some(whole as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_rates_have_the_format_of_iperf3() {
        assert_eq!(format_bytes(393_216), " 384 KBytes");
        assert_eq!(format_bytes(0), "0.00 Bytes");
        assert_eq!(format_bytes(1_279_263), "1.22 MBytes");
        assert_eq!(
            format_rate(1_279_263, 1.0, RateFormat::Adaptive),
            "10.2 Mbits/sec"
        );
        assert_eq!(
            format_rate(1_250_000, 1.0, RateFormat::Bits(1)),
            "10000 Kbits/sec"
        );
        assert_eq!(
            format_rate(1 << 20, 1.0, RateFormat::Bytes(2)),
            "1.00 MBytes/sec"
        );
        assert_eq!(
            format_rate(1 << 20, 0.0, RateFormat::Adaptive),
            "0.00 bits/sec"
        );
    }

    #[test]
    fn counts_with_a_suffix_are_parsed() {
        assert_eq!(parse_count("128K", 1024), Some(131_072));
        assert_eq!(parse_count("1.5M", 1000), Some(1_500_000));
        assert_eq!(parse_count("7", 1024), Some(7));
        for wrong in ["", "K", "-1", "1e40", "nan", "infinity", "1Q", "ü"] {
            assert_eq!(parse_count(wrong, 1024), None, "{wrong}");
        }
    }

    #[test]
    fn a_format_must_be_one_letter() {
        assert_eq!(RateFormat::parse("m"), Some(RateFormat::Bits(2)));
        assert_eq!(RateFormat::parse("T"), Some(RateFormat::Bytes(4)));
        assert_eq!(RateFormat::parse("x"), None);
        assert_eq!(RateFormat::parse("mm"), None);
    }
}
