#!/bin/bash
# Logs of goben with each option that changes its output: what it prints, and its CSV and YAML files.
TOOL=goben; . "$(dirname "$0")/common.sh"; need goben
S=(goben --tls=false -l 127.0.0.1:12821); C=(goben --tls=false -H 127.0.0.1:12821 -d 2s -i 500ms)
F=$(mktemp -d); trap 'rm -r "$F"' EXIT; SETTLE=0.6
run plain "${S[@]}" -- "${C[@]}"
run default-interval "${S[@]}" -- goben --tls=false -H 127.0.0.1:12821 -d 2s
run connections "${S[@]}" -- "${C[@]}" -c 3
run passive-server "${S[@]}" -- "${C[@]}" --passiveServer
run passive-client "${S[@]}" -- "${C[@]}" --passiveClient
run passive-server-connections "${S[@]}" -- "${C[@]}" --passiveServer -c 2
run udp "${S[@]}" -u -- "${C[@]}" -u --passiveServer --maxSpeed 50 --udpWriteSize 1400
run udp-both "${S[@]}" -u -- "${C[@]}" -u --maxSpeed 20 --udpWriteSize 1400
run udp-passive-client "${S[@]}" -u -- "${C[@]}" -u --passiveClient --maxSpeed 20
run limited "${S[@]}" -- "${C[@]}" --maxSpeed 100
run write-size "${S[@]}" -- "${C[@]}" --tcpWriteSize 4000 --passiveServer
run ascii "${S[@]}" -- "${C[@]}" --passiveServer -e ascii
exported() { # exported NAME SUFFIX OPTIONS…: keep the file that -e names
    local name=$1 suffix=$2
    shift 2
    run "$name" "${S[@]}" -- "${C[@]}" "$@" -e "$F/export-%d-%s.$suffix"
    cat "$F"/export-*."$suffix" > "$(folder_of "$name")/$name.client.$suffix.log"
    rm "$F"/export-*
}
exported csv csv --passiveServer
exported csv-both csv
exported csv-connections csv --passiveServer -c 2
exported yaml yaml --passiveServer
run refused -- goben --tls=false -H 127.0.0.1:12899 -d 1s
