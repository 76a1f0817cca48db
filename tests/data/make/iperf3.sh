#!/bin/bash
# Logs of iperf3 with each option that changes its output.
TOOL=iperf3; . "$(dirname "$0")/common.sh"; need iperf3
PORT=12801; . "$(dirname "$0")/iperf3_options.sh"
run format-T "${S[@]}" -f t -- "${C[@]}" -f t
run blocks "${S[@]}" -- "$TOOL" -c 127.0.0.1 -p "$PORT" -k 1000
run rate-burst "${S[@]}" -- "${C[@]}" -b 100M/10
run timestamps "${S[@]}" --timestamps -- "${C[@]}" --timestamps
run extra-data "${S[@]}" -J -- "${C[@]}" -J --extra-data note
run tos "${S[@]}" -- "${C[@]}" -S 0x10 -A 0,0 -J
run busy-then-stopped timeout -s INT 1.5 "${S[@]}" -- "${C[@]}" -t 5
