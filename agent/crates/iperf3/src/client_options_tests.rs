//! Tests of the client's options.

use super::*;
use crate::command_line::parse_words;

fn parse_client(line: &str) -> Result<ClientOptions, clap::Error> {
    parse_words::<ClientArguments>(line)?.into_options()
}

#[test]
fn every_spelling_of_an_option_is_parsed() {
    let options =
        parse_client("host -p5202 -uR --parallel=3 -t 0.5 -b 10M/5 -i.5 --rcv-timeout 500")
            .expect("the options are valid");
    assert_eq!((options.host.as_str(), options.port), ("host", 5202));
    assert_eq!(options.parameters.direction, Direction::Reverse);
    assert_eq!(
        (
            options.parameters.streams_per_direction,
            options.parameters.rate_bps,
            options.parameters.burst
        ),
        (3, 10_000_000, 5)
    );
    assert_eq!(
        options.parameters.end_condition,
        EndCondition::After(Duration::from_millis(500))
    );
    assert_eq!(
        options.session.line_interval(),
        Some(Duration::from_millis(500))
    );
    assert_eq!(options.session.idle_timeout, Duration::from_millis(500));
}

#[test]
fn options_are_parsed_as_getopt_long_does() {
    let abbreviated = parse_client("--par 2 --rev --len 8K --band 1M host").expect("valid");
    assert_eq!(abbreviated.parameters.streams_per_direction, 2);
    assert_eq!(abbreviated.parameters.direction, Direction::Reverse);
    assert_eq!(abbreviated.parameters.block_bytes, 8_192);
    assert_eq!(abbreviated.parameters.rate_bps, 1_000_000);
    // `--re` may be `--reverse` or `--repeating-payload`; `--fo` may be the unsupported `--forceflush`.
    for ambiguous in ["--re host", "--fo m host"] {
        parse_client(ambiguous).expect_err(ambiguous);
    }
    let repeated = parse_client("host -u -u -t 1 -t 2 -4 -6 -P 2 -P 3").expect("valid");
    assert_eq!(
        repeated.parameters.end_condition,
        EndCondition::After(Duration::from_secs(2))
    );
    assert_eq!(repeated.parameters.streams_per_direction, 3);
    assert_eq!(repeated.family, AddressFamily::V6);
    let dashed = parse_client("-T -R --extra-data --json host").expect("valid");
    assert_eq!(dashed.parameters.title.as_deref(), Some("-R"));
    assert_eq!(dashed.parameters.extra_data.as_deref(), Some("--json"));
    assert_eq!(dashed.parameters.direction, Direction::Forward);
    let after_dashes = parse_client("-R -- host").expect("valid");
    assert_eq!(after_dashes.host, "host");
}

#[test]
fn defaults_are_those_of_iperf3() {
    let tcp = parse_client("host").expect("valid");
    assert_eq!((tcp.port, tcp.first_source_port), (5201, None));
    assert_eq!(tcp.connect_timeout, Duration::from_secs(10));
    assert_eq!(tcp.parameters, TestParameters::default());
    assert_eq!(tcp.session.line_interval(), Some(Duration::from_secs(1)));
    assert_eq!(tcp.session.idle_timeout, Duration::from_secs(120));
    let udp = parse_client("host -u -t 0 -i 0").expect("valid");
    assert_eq!(udp.parameters.rate_bps, 1 << 20);
    assert_eq!(udp.parameters.end_condition, EndCondition::Never);
    assert_eq!(udp.session.line_interval(), None);
}

#[test]
fn numbers_are_parsed_in_the_notation_of_iperf3() {
    let parameters = parse_client("host -n 1.5M -l 64k -w 512M -S 0x10")
        .expect("valid")
        .parameters;
    assert_eq!(parameters.end_condition, EndCondition::Bytes(3 << 19));
    assert_eq!(parameters.block_bytes, 64 << 10);
    assert_eq!(parameters.socket_buffer_bytes, Some(512 << 20));
    assert_eq!(parameters.tos, 16);
    assert_eq!(
        parse_client("host -S 010").expect("valid").parameters.tos,
        8
    );
}

#[test]
fn unsupported_and_invalid_options_are_refused_with_a_message() {
    for (line, expected) in [
        ("host -Z", "-Z, --zerocopy is not supported: "),
        ("host -uZ", "-Z, --zerocopy is not supported: "),
        (
            "host --sctp",
            "--sctp is not supported: vnetbench has no SCTP",
        ),
        ("host --logfile f", "--logfile is not supported: "),
        ("host --frobnicate", "unexpected argument '--frobnicate'"),
        (
            "host -R --bidir",
            "'--reverse' cannot be used with '--bidir'",
        ),
        (
            "host -t 1 -n 5",
            "'--time <S>' cannot be used with '--bytes",
        ),
        ("host -k 1 -n 5", "cannot be used with"),
        (
            "host -u -C cubic",
            "'--udp' cannot be used with '--congestion",
        ),
        ("host -P 129", "'--parallel <N>': must be from 1 to 128"),
        ("host -p 0", "'--port <PORT>': must be from 1 to 65535"),
        ("host -p -5", "'--port <PORT>': must be from 1 to 65535"),
        ("host -u -l 8", "from 16 to 65507 bytes with --udp"),
        ("host -i 0.01", "'--interval <S>': must be 0"),
        ("host -b fast", "must be a rate in bit/s"),
        (
            "host -w 1G",
            "'--window <N[KMGT]>': must be from 1 to 536870912",
        ),
        ("host -n 5X", "'--bytes <N[KMGT]>': must be from 1"),
        ("-c host", "-c, --client is not supported: "),
        ("host -f x", "'--format <LETTER>': must be one of"),
        ("host -S 256", "'--tos <N>': must be from 0 to 255"),
        ("host -O 601", "'--omit <S>': must be from 0 to 600"),
        ("host -t", "a value is required for '--time <S>'"),
        ("host --parallle 2", "argument exists: '--parallel'"),
        ("host again", "unexpected argument 'again'"),
        ("", "<HOST>"),
    ] {
        let error = parse_client(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        let message = error.to_string();
        assert!(message.contains(expected), "{line}: {message}");
        assert!(message.contains("try '--help'"), "{message}");
    }
}

#[test]
fn source_ports_end_at_the_last_port() {
    let options = parse_client("host --cport 65532 -P 2 --bidir").expect("valid");
    assert_eq!(options.first_source_port, Some(65532));
    for (line, expected) in [
        (
            "host --cport 0",
            "'--cport <PORT>': must be from 1 to 65535",
        ),
        (
            "host --cport 65534 -P 3",
            "--cport must be at most 65533 for 3 streams",
        ),
        (
            "host --cport 65533 -P 2 --bidir",
            "at most 65532 for 4 streams",
        ),
    ] {
        let message = parse_client(line).expect_err(line).to_string();
        assert!(message.contains(expected), "{line}: {message}");
    }
}
