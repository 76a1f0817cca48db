# Runs of iperf3, or of a tool that has its options, with each option that both have.
#
# A script of this folder sources this file after common.sh, with TOOL and PORT set.

S=("$TOOL" -s -1 -p "$PORT" --forceflush); C=("$TOOL" -c 127.0.0.1 -p "$PORT" -t 1)
run plain "${S[@]}" -- "${C[@]}"
run parallel "${S[@]}" -- "${C[@]}" -P 3 -i 0.5
run reverse "${S[@]}" -- "${C[@]}" -R
run reverse-parallel "${S[@]}" -- "${C[@]}" -R -P 2
run bidir "${S[@]}" -- "${C[@]}" --bidir
run bidir-parallel-json "${S[@]}" -J -- "${C[@]}" --bidir -P 2 -J
run bidir-json "${S[@]}" -J -- "${C[@]}" --bidir -J
run json "${S[@]}" -J -- "${C[@]}" -J
run json-reverse "${S[@]}" -J -- "${C[@]}" -J -R
run json-server-output "${S[@]}" -- "${C[@]}" -J --get-server-output
run json-both-json "${S[@]}" -J -- "${C[@]}" -J --get-server-output
run server-output "${S[@]}" -- "${C[@]}" --get-server-output
run server-output-json "${S[@]}" -J -- "${C[@]}" --get-server-output
run udp "${S[@]}" -- "${C[@]}" -u -b 40M
run udp-default-rate "${S[@]}" -- "${C[@]}" -u
run udp-reverse "${S[@]}" -- "${C[@]}" -u -b 40M -R
run udp-bidir "${S[@]}" -- "${C[@]}" -u -b 40M --bidir
run udp-parallel "${S[@]}" -- "${C[@]}" -u -b 20M -P 2
run udp-json "${S[@]}" -J -- "${C[@]}" -u -b 40M -J
run udp-json-reverse "${S[@]}" -J -- "${C[@]}" -u -b 40M -J -R
run udp-json-bidir "${S[@]}" -J -- "${C[@]}" -u -b 40M -J --bidir
run udp-unlimited "${S[@]}" -- "${C[@]}" -u -b 0 -l 1400
run udp-64bit "${S[@]}" -- "${C[@]}" -u -b 40M --udp-counters-64bit
run omit "${S[@]}" -- "${C[@]}" -t 2 -O 1
run omit-json "${S[@]}" -J -- "${C[@]}" -t 2 -O 1 -J
run verbose "${S[@]}" -V -- "${C[@]}" -V
run verbose-udp "${S[@]}" -V -- "${C[@]}" -V -u -b 40M
run format-k "${S[@]}" -f k -- "${C[@]}" -f k
run format-MB "${S[@]}" -f M -- "${C[@]}" -f M
run no-intervals "${S[@]}" -i 0 -- "${C[@]}" -i 0
run bytes "${S[@]}" -- "$TOOL" -c 127.0.0.1 -p "$PORT" -n 200M
run rate-limited "${S[@]}" -- "${C[@]}" -b 100M
run zero-copy "${S[@]}" -- "${C[@]}" -Z
run congestion "${S[@]}" -- "${C[@]}" -C reno -V
run window "${S[@]}" -- "${C[@]}" -w 128K -M 1000 -N -l 4K
run ipv6 "$TOOL" -s -1 -6 -p "$PORT" --forceflush -- "$TOOL" -6 -c ::1 -p "$PORT" -t 1
run title "${S[@]}" -- "${C[@]}" -T case7
run refused -- "$TOOL" -c 127.0.0.1 -p 12899 -t 1
run refused-json -- "$TOOL" -c 127.0.0.1 -p 12899 -t 1 -J
