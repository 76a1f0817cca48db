#!/bin/bash
# Logs of netperf with each option that changes its output.
TOOL=netperf; . "$(dirname "$0")/common.sh"; need netperf netserver
S=(netserver -D -p 12803); C=(netperf -H 127.0.0.1 -p 12803 -l 1)
for test in TCP_STREAM TCP_MAERTS TCP_SENDFILE UDP_STREAM TCP_RR TCP_CRR UDP_RR; do
    name=$(echo $test | tr 'A-Z_' 'a-z-')
    run $name-plain "${S[@]}" -- "${C[@]}" -t $test
    run $name-no-banner "${S[@]}" -- "${C[@]}" -t $test -P 0
    run $name-cpu "${S[@]}" -- "${C[@]}" -t $test -c -C
    run $name-verbose "${S[@]}" -- "${C[@]}" -t $test -v 2
    run $name-short "${S[@]}" -- "${C[@]}" -t $test -v 0
    run $name-keys "${S[@]}" -- "${C[@]}" -t $test -- -k
    run $name-csv "${S[@]}" -- "${C[@]}" -t $test -- -o
    run $name-table "${S[@]}" -- "${C[@]}" -t $test -- -O
    run $name-interim "${S[@]}" -- "${C[@]}" -t $test -D 0.3
done
for unit in b k g B K M G; do run tcp-stream-unit-$unit "${S[@]}" -- "${C[@]}" -f $unit; done
run udp-stream-unit-g "${S[@]}" -- "${C[@]}" -t UDP_STREAM -f g
run udp-stream-unit-M "${S[@]}" -- "${C[@]}" -t UDP_STREAM -f M -P 1 -- -m 1400
run tcp-rr-unit-k "${S[@]}" -- "${C[@]}" -t TCP_RR -f k
run tcp-rr-burst "${S[@]}" -- "${C[@]}" -t TCP_RR -- -b 8 -r 100,200
run tcp-rr-histogram "${S[@]}" -- "${C[@]}" -t TCP_RR -v 3
run tcp-rr-latencies "${S[@]}" -- "${C[@]}" -t TCP_RR -j -- -o P50_LATENCY,P90_LATENCY,P99_LATENCY,MEAN_LATENCY,TRANSACTION_RATE
run tcp-rr-latency-keys "${S[@]}" -- "${C[@]}" -t TCP_RR -j -- -k min_latency,mean_latency,p50_latency,p90_latency,p99_latency,max_latency,throughput,throughput_units
run omni-keys "${S[@]}" -- "${C[@]}" -t omni -- -d send -k
run omni-recv "${S[@]}" -- "${C[@]}" -t omni -- -d recv
run omni-rr "${S[@]}" -- "${C[@]}" -t omni -- -d rr -r 1,1
run omni-udp "${S[@]}" -- "${C[@]}" -t omni -- -d send -T UDP -m 1400
run omni-udp-keys "${S[@]}" -- "${C[@]}" -t omni -- -d send -T UDP -m 1400 -k
run omni-selected "${S[@]}" -- "${C[@]}" -t omni -- -d send -o throughput,throughput_units,elapsed_time
run omni-all "${S[@]}" -- "${C[@]}" -t omni -- -d send -O all
run confidence "${S[@]}" -- "${C[@]}" -t TCP_STREAM -i 3,3 -I 99,50
run confidence-udp "${S[@]}" -- "${C[@]}" -t UDP_STREAM -i 3,3 -I 99,50
run size "${S[@]}" -- "${C[@]}" -t TCP_STREAM -- -m 4096 -s 64K -S 64K
run udp-size "${S[@]}" -- "${C[@]}" -t UDP_STREAM -- -m 1400 -s 64K -S 64K
run ipv6 netserver -D -6 -L ::1 -p 12803 -- netperf -H ::1 -6 -p 12803 -l 1
run brand "${S[@]}" -- "${C[@]}" -t TCP_STREAM -B mine
run bytes "${S[@]}" -- netperf -H 127.0.0.1 -p 12803 -l -50000000
run refused -- netperf -H 127.0.0.1 -p 12899 -l 1
