#!/bin/bash
# Logs of xfr with each option that changes its output.
TOOL=xfr; . "$(dirname "$0")/common.sh"; need xfr
S=(xfr --no-update-check serve -p 12823 --one-off); C=(xfr --no-update-check --no-tui 127.0.0.1 -p 12823 -t 2s); SETTLE=0.6
run plain "${S[@]}" -- "${C[@]}"
run interval "${S[@]}" -- "${C[@]}" -i 0.5
run quiet "${S[@]}" -- "${C[@]}" -q
run parallel "${S[@]}" -- "${C[@]}" -P 3
run reverse "${S[@]}" -- "${C[@]}" -R
run bidir "${S[@]}" -- "${C[@]}" --bidir
run omit "${S[@]}" -- "${C[@]}" --omit 1
run bytes "${S[@]}" -- xfr --no-update-check --no-tui 127.0.0.1 -p 12823 -n 200M
run limited "${S[@]}" -- "${C[@]}" -b 100M
run udp "${S[@]}" -- "${C[@]}" -u -b 40M
run udp-reverse "${S[@]}" -- "${C[@]}" -u -b 40M -R
run udp-parallel "${S[@]}" -- "${C[@]}" -u -b 20M -P 2
run udp-bidir "${S[@]}" -- "${C[@]}" -u -b 20M --bidir
run quic "${S[@]}" -- "${C[@]}" -Q
for form in json json-stream csv; do
    run $form "${S[@]}" -- "${C[@]}" --$form
    run $form-parallel "${S[@]}" -- "${C[@]}" --$form -P 2
    run $form-reverse "${S[@]}" -- "${C[@]}" --$form -R
    run $form-bidir "${S[@]}" -- "${C[@]}" --$form --bidir
    run $form-udp "${S[@]}" -- "${C[@]}" --$form -u -b 40M
    run $form-udp-reverse "${S[@]}" -- "${C[@]}" --$form -u -b 40M -R
done
run timestamps-iso "${S[@]}" -- "${C[@]}" --timestamp-format iso8601
run timestamps-unix "${S[@]}" -- "${C[@]}" --timestamp-format unix
run json-quic "${S[@]}" -- "${C[@]}" --json -Q
run refused -- xfr --no-update-check --no-tui 127.0.0.1 -p 12899 -t 1s
run refused-json -- xfr --no-update-check --json 127.0.0.1 -p 12899 -t 1s
