#!/bin/bash
# Logs of nuttcp with each option that changes its output.
TOOL=nuttcp; . "$(dirname "$0")/common.sh"; need nuttcp
S=(nuttcp -S --nofork -P 12804); C=(nuttcp -P 12804 -T1)
run plain "${S[@]}" -- "${C[@]}" 127.0.0.1
run two-seconds "${S[@]}" -- nuttcp -P 12804 -T2 -i1 127.0.0.1
run intervals "${S[@]}" -- "${C[@]}" -i0.5 127.0.0.1
run reverse "${S[@]}" -- "${C[@]}" -r 127.0.0.1
run reverse-intervals "${S[@]}" -- "${C[@]}" -r -i0.5 127.0.0.1
run streams "${S[@]}" -- "${C[@]}" -N3 -i0.5 127.0.0.1
run verbose "${S[@]}" -- "${C[@]}" -v 127.0.0.1
run verbose-intervals "${S[@]}" -- "${C[@]}" -v -i0.5 127.0.0.1
run very-verbose "${S[@]}" -- "${C[@]}" -vv 127.0.0.1
run parse "${S[@]}" -- "${C[@]}" -fparse 127.0.0.1
run parse-intervals "${S[@]}" -- "${C[@]}" -fparse -i0.5 127.0.0.1
run parse-verbose "${S[@]}" -- "${C[@]}" -fparse -v 127.0.0.1
run brief "${S[@]}" -- "${C[@]}" -b 127.0.0.1
run brief-off "${S[@]}" -- "${C[@]}" -b0 127.0.0.1
run udp "${S[@]}" -- "${C[@]}" -u -R50m 127.0.0.1
run udp-intervals "${S[@]}" -- "${C[@]}" -u -R50m -i0.5 127.0.0.1
run udp-verbose "${S[@]}" -- "${C[@]}" -u -R50m -v 127.0.0.1
run udp-parse "${S[@]}" -- "${C[@]}" -u -R50m -fparse -i0.5 127.0.0.1
run udp-reverse "${S[@]}" -- "${C[@]}" -u -R50m -r 127.0.0.1
run udp-full-rate "${S[@]}" -- "${C[@]}" -u -Ru -l1400 127.0.0.1
run udp-size "${S[@]}" -- "${C[@]}" -u -R20m -l1000 127.0.0.1
run rate-limited "${S[@]}" -- "${C[@]}" -R100m 127.0.0.1
run rate-pps "${S[@]}" -- "${C[@]}" -u -R1000p 127.0.0.1
run running-total "${S[@]}" -- "${C[@]}" -i0.5 -frunningtotal 127.0.0.1
run xmit-stats "${S[@]}" -- "${C[@]}" -fxmitstats 127.0.0.1
run no-rtt "${S[@]}" -- "${C[@]}" -f-rtt 127.0.0.1
run no-retrans "${S[@]}" -- "${C[@]}" -f-retrans 127.0.0.1
run udp-no-percent "${S[@]}" -- "${C[@]}" -u -R20m -f-percentloss 127.0.0.1
run udp-no-drops "${S[@]}" -- "${C[@]}" -u -R20m -f-drops 127.0.0.1
run beta "${S[@]}" -- "${C[@]}" -fbeta 127.0.0.1
run buffers "${S[@]}" -- nuttcp -P 12804 -n2000 -l8k -w512 127.0.0.1
run bytes "${S[@]}" -- nuttcp -P 12804 -n100m 127.0.0.1
run nodelay "${S[@]}" -- "${C[@]}" -D 127.0.0.1
run ipv6 nuttcp -6 -S --nofork -P 12804 -- nuttcp -6 -P 12804 -T1 ::1
run named "${S[@]}" -- "${C[@]}" -Iwan 127.0.0.1
run named-intervals "${S[@]}" -- "${C[@]}" -Iwan -i0.5 127.0.0.1
run classic nuttcp -r -p 12814 -- nuttcp -t -p 12814 -T1 127.0.0.1
run classic-verbose nuttcp -r -v -p 12814 -- nuttcp -t -v -p 12814 -T1 127.0.0.1
run one-shot nuttcp -1 -P 12804 -- "${C[@]}" 127.0.0.1
run refused -- nuttcp -P 12899 -T1 127.0.0.1
