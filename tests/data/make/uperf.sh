#!/bin/bash
# Logs of uperf with each option that changes its output. The profiles are written here.
TOOL=uperf; . "$(dirname "$0")/common.sh"; need uperf
P=$(mktemp -d); trap 'rm -r "$P"' EXIT
profile() { # profile NAME THREADS PROTOCOL FLOWOPS…
    local file=$P/$1.xml threads=$2 protocol=$3
    shift 3
    {
        printf '%s\n' '<?xml version="1.0"?>' '<profile name="load">' "<group nthreads=\"$threads\">"
        printf '%s\n' '<transaction iterations="1">' \
            "<flowop type=\"connect\" options=\"remotehost=127.0.0.1 protocol=$protocol\"/>" '</transaction>'
        echo '<transaction duration="2s">'
        for op in "$@"; do echo "<flowop type=\"${op%%,*}\" options=\"${op#*,}\"/>"; done
        printf '%s\n' '</transaction>' '<transaction iterations="1">' '<flowop type="disconnect"/>' \
            '</transaction>' '</group>' '</profile>'
    } > "$file"
}
profile write 1 tcp "write,size=64k"
profile write4 4 tcp "write,count=10 size=8k"
profile read 1 tcp "read,size=64k"
profile rr 1 tcp "write,size=90" "read,size=90"
profile rr4 4 tcp "write,size=90" "read,size=1k"
profile udp 1 udp "write,size=1400"
profile both 1 tcp "write,size=64k" "read,size=64k"
S=(uperf -s); SETTLE=0.5
for each in write write4 read rr rr4 udp both; do
    run $each-plain "${S[@]}" -- uperf -m "$P/$each.xml"
    run $each-averages "${S[@]}" -- uperf -m "$P/$each.xml" -a
    run $each-raw "${S[@]}" -- uperf -m "$P/$each.xml" -R
done
run write-raw-averages "${S[@]}" -- uperf -m "$P/write.xml" -R -a
run write-interval "${S[@]}" -- uperf -m "$P/write.xml" -i 500
run write-no-statistics "${S[@]}" -- uperf -m "$P/write.xml" -n
run write-flowops "${S[@]}" -- uperf -m "$P/write.xml" -f
run write-groups "${S[@]}" -- uperf -m "$P/write.xml" -g
run write-threads "${S[@]}" -- uperf -m "$P/write.xml" -t
run write-verbose "${S[@]}" -- uperf -m "$P/write.xml" -v
run write-errors "${S[@]}" -- uperf -m "$P/write.xml" -e
run write-packets "${S[@]}" -- uperf -m "$P/write.xml" -p
run refused -- uperf -m "$P/write.xml" -P 12899
