#!/bin/bash
# Logs of riperf3, which prints as iperf3 does, with each option that changes its output.
TOOL=riperf3; . "$(dirname "$0")/common.sh"; need riperf3
PORT=12824; . "$(dirname "$0")/iperf3_options.sh"
run json-stream "${S[@]}" -J -- "${C[@]}" --json-stream
