#!/bin/bash
# Logs of sockperf with each option that changes its output.
TOOL=sockperf; . "$(dirname "$0")/common.sh"; need sockperf
U=(sockperf sr -i 127.0.0.1 -p 12805); T=("${U[@]}" --tcp); D=(-i 127.0.0.1 -p 12805 -t 1)
mkdir -p "$OUT/$TOOL/files"
run ping-pong "${U[@]}" -- sockperf pp "${D[@]}"
run ping-pong-tcp "${T[@]}" -- sockperf pp "${D[@]}" --tcp
run ping-pong-rate "${U[@]}" -- sockperf pp "${D[@]}" --mps 2000
run ping-pong-max "${U[@]}" -- sockperf pp "${D[@]}" --mps max
run ping-pong-size "${U[@]}" -- sockperf pp "${D[@]}" -m 1400
run ping-pong-full-rtt "${U[@]}" -- sockperf pp "${D[@]}" --full-rtt
run ping-pong-csv "${U[@]}" -- sh -c "sockperf pp ${D[*]} --full-log $OUT/$TOOL/files/pp.csv > /dev/null; cat $OUT/$TOOL/files/pp.csv"
run ping-pong-csv-rate "${U[@]}" -- sh -c "sockperf pp ${D[*]} --mps 500 --full-log $OUT/$TOOL/files/pr.csv > /dev/null; cat $OUT/$TOOL/files/pr.csv"
run ping-pong-csv-tcp "${T[@]}" -- sh -c "sockperf pp ${D[*]} --tcp --mps 500 --full-log $OUT/$TOOL/files/pt.csv > /dev/null; cat $OUT/$TOOL/files/pt.csv"
run ping-pong-burst "${U[@]}" -- sockperf pp "${D[@]}" -b 4
run ping-pong-histogram "${U[@]}" -- sockperf pp "${D[@]}" --histogram 5:10:100
run ping-pong-no-warmup "${U[@]}" -- sockperf pp "${D[@]}" --dontwarmup
run ping-pong-integrity "${U[@]}" -- sockperf pp "${D[@]}" --data-integrity
run under-load "${U[@]}" -- sockperf ul "${D[@]}" --mps 1000
run under-load-default "${U[@]}" -- sockperf ul "${D[@]}"
run under-load-tcp "${T[@]}" -- sockperf ul "${D[@]}" --tcp --mps 1000
run under-load-burst "${U[@]}" -- sockperf ul "${D[@]}" --mps 1000 --burst 4
run under-load-reply "${U[@]}" -- sockperf ul "${D[@]}" --mps 2000 --reply-every 20
run under-load-max "${U[@]}" -- sockperf ul "${D[@]}" --mps max
run under-load-full-rtt "${U[@]}" -- sockperf ul "${D[@]}" --mps 1000 --full-rtt
run under-load-csv "${U[@]}" -- sh -c "sockperf ul ${D[*]} --mps 1000 --full-log $OUT/$TOOL/files/ul.csv > /dev/null; cat $OUT/$TOOL/files/ul.csv"
run throughput "${U[@]}" -- sockperf tp "${D[@]}"
run throughput-tcp "${T[@]}" -- sockperf tp "${D[@]}" --tcp -m 1400
run throughput-rate "${U[@]}" -- sockperf tp "${D[@]}" --mps 10000
run throughput-size "${U[@]}" -- sockperf tp "${D[@]}" -m 1400
run throughput-giga "${U[@]}" -- sockperf tp "${D[@]}" --giga-size -m 1400
run throughput-decimal "${U[@]}" -- sockperf tp "${D[@]}" --increase_output_precision -m 1400
run precision "${U[@]}" -- sockperf pp "${D[@]}" --increase_output_precision
run number "${U[@]}" -- sockperf pp -i 127.0.0.1 -p 12805 -n 2000
run refused -- sockperf pp -i 127.0.0.1 -p 12899 -t 1 --tcp
run nobody -- sockperf pp -i 127.0.0.1 -p 12898 -t 1
rm -r "$OUT/$TOOL/files"
