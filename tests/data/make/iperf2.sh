#!/bin/bash
# Logs of iperf 2 with each option that changes its output.
TOOL=iperf2; . "$(dirname "$0")/common.sh"; need iperf
S=(iperf -s -p 12802); C=(iperf -c 127.0.0.1 -p 12802 -t 1)
run plain "${S[@]}" -- "${C[@]}"
run intervals "${S[@]}" -i 0.5 -- "${C[@]}" -i 0.5
run parallel "${S[@]}" -i 0.5 -- "${C[@]}" -P 3 -i 0.5
run parallel-enhanced "${S[@]}" -e -i 0.5 -- "${C[@]}" -e -P 2 -i 0.5
run enhanced "${S[@]}" -e -- "${C[@]}" -e
run enhanced-parallel-total "${S[@]}" -e -- "${C[@]}" -e -P 2
run sum-only "${S[@]}" --sum-only -- "${C[@]}" -P 2 --sum-only
run udp "${S[@]}" -u -- "${C[@]}" -u -b 20m
run udp-intervals "${S[@]}" -u -i 0.5 -- "${C[@]}" -u -b 20m -i 0.5
run udp-enhanced "${S[@]}" -u -e -i 0.5 -- "${C[@]}" -u -b 20m -e -i 0.5
run udp-parallel "${S[@]}" -u -- "${C[@]}" -u -b 10m -P 2
run udp-reverse "${S[@]}" -u -- "${C[@]}" -u -b 20m -R
run udp-pps "${S[@]}" -u -- "${C[@]}" -u -b 1000pps -e
run udp-full-duplex "${S[@]}" -u -- "${C[@]}" -u -b 20m --full-duplex
run dual "${S[@]}" -- "${C[@]}" -d -L 12812
run tradeoff "${S[@]}" -- "${C[@]}" -r -L 12812
run reverse "${S[@]}" -- "${C[@]}" -R
run reverse-enhanced "${S[@]}" -e -- "${C[@]}" -R -e -i 0.5
run full-duplex "${S[@]}" -e -- "${C[@]}" --full-duplex -e
run full-duplex-plain "${S[@]}" -i 0.5 -- "${C[@]}" --full-duplex -i 0.5
run bounceback "${S[@]}" -- "${C[@]}" --bounceback
run bounceback-intervals "${S[@]}" -i 0.5 -- "${C[@]}" --bounceback -i 0.5 -e
run bounceback-size "${S[@]}" -- "${C[@]}" --bounceback -l 500
run bounceback-period "${S[@]}" -- "${C[@]}" --bounceback --bounceback-period 50ms
run bounceback-no-quickack "${S[@]}" -- "${C[@]}" --bounceback --bounceback-no-quickack
run bounceback-load "${S[@]}" -- "${C[@]}" --bounceback=10
run bounceback-load-up "${S[@]}" -- "${C[@]}" --bounceback -i 0.5 -e -P 2
run csv "${S[@]}" -y C -- "${C[@]}" -y C
run csv-intervals "${S[@]}" -y C -i 0.5 -- "${C[@]}" -y C -i 0.5
run csv-parallel "${S[@]}" -y C -- "${C[@]}" -y C -P 2
run csv-udp "${S[@]}" -u -y C -- "${C[@]}" -u -b 20m -y C
run csv-udp-intervals "${S[@]}" -u -y C -i 0.5 -- "${C[@]}" -u -b 20m -y C -i 0.5
run csv-enhanced "${S[@]}" -e -y C -- "${C[@]}" -e -y C
run csv-reverse "${S[@]}" -y C -- "${C[@]}" -R -y C
run csv-dual "${S[@]}" -y C -- "${C[@]}" -d -L 12812 -y C
run format-k "${S[@]}" -f k -- "${C[@]}" -f k
run format-MB "${S[@]}" -f M -- "${C[@]}" -f M
run bytes "${S[@]}" -- iperf -c 127.0.0.1 -p 12802 -n 100M
run rate-limited "${S[@]}" -e -- "${C[@]}" -b 50m -e
run rate-variance "${S[@]}" -u -e -- "${C[@]}" -u -b 20m,2m -e
run window "${S[@]}" -w 64K -- "${C[@]}" -w 64K -l 8K -N
run mss "${S[@]}" -m -- "${C[@]}" -M 1000 -m
run congestion "${S[@]}" -- "${C[@]}" -Z reno -e
run ipv6 iperf -s -V -p 12802 -- iperf -V -c ::1 -p 12802 -t 1
run trip-times "${S[@]}" -e -i 0.5 -- "${C[@]}" --trip-times -e -i 0.5
run trip-times-udp "${S[@]}" -u -e -i 0.5 -- "${C[@]}" -u -b 10m --trip-times -e -i 0.5
run histograms "${S[@]}" -e -i 0.5 --histograms -- "${C[@]}" --trip-times -e -i 0.5
run isochronous "${S[@]}" -u -e -- "${C[@]}" -u --isochronous=60:10m,1m -e
run burst-period "${S[@]}" -e -i 0.5 -- "${C[@]}" --burst-period 0.1 --burst-size 100K -e -i 0.5
run near-congestion "${S[@]}" -e -- "${C[@]}" --near-congestion=0.5 -e
run write-prefetch "${S[@]}" -e -- "${C[@]}" --tcp-write-prefetch 64K -e
run connect-only "${S[@]}" -- iperf -c 127.0.0.1 -p 12802 --connect-only 3 -e
run utc "${S[@]}" -e --utc -- "${C[@]}" -e --utc
run refused -- iperf -c 127.0.0.1 -p 12899 -t 1
run server-gone timeout -s KILL 1.2 "${S[@]}" -- "${C[@]}" -t 4 -i 0.5
