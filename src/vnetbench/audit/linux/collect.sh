# Print what the audit reads of a Linux machine: sections that start with a line `@@ NAME`. It changes nothing and
# needs no root. `ethtool`, `ovs-vsctl` and others are used where they are installed.
# Use: sh collect.sh > MACHINE.txt, then vnetbench audit MACHINE.txt
LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
section() { printf '\n@@ %s\n' "$*"; }
has() { command -v "$1" >/dev/null 2>&1; }
show() { # FILE: its content
    [ -r "$1" ] && [ -f "$1" ] && { section "$1"; head -c 262144 "$1"; }
}
run() { # COMMAND ARGUMENTS: its output
    has "$1" && { section "$@"; "$@" 2>/dev/null | head -c 262144; }
}
# The shell's own `read` gets only the first byte of a file in /proc/sys.
values() { grep -s -H -m 1 . "$@"; } # FILES: one line PATH:VALUE each
section format
echo vnetbench-linux-audit 1
section identity
uname -n
uname -r
for file in /etc/os-release /proc/net/softnet_stat /proc/interrupts; do show "$file"; done
section virtualisation
if has systemd-detect-virt; then systemd-detect-virt --vm; fi
section values
values /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name /sys/devices/system/cpu/online \
    /sys/devices/system/clocksource/clocksource0/current_clocksource /proc/sys/net/ipv4/ip_forward \
    /proc/sys/net/ipv4/tcp_window_scaling /proc/sys/net/ipv4/tcp_sack /proc/sys/net/ipv4/tcp_timestamps \
    /proc/sys/net/ipv4/tcp_moderate_rcvbuf /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem \
    /proc/sys/net/ipv4/ip_no_pmtu_disc /proc/sys/net/ipv4/neigh/default/gc_thresh3 \
    /proc/sys/net/bridge/bridge-nf-call-iptables \
    /proc/sys/net/netfilter/nf_conntrack_count /proc/sys/net/netfilter/nf_conntrack_max
values /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor \
    /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver
section programs
cat /proc/[0-9]*/comm 2>/dev/null | sort -u | head -n 2000
for program in vmware-toolbox-cmd vmtoolsd qemu-ga ethtool ovs-vsctl; do
    if has "$program"; then echo "installed:$program"; fi
done
run vmware-toolbox-cmd -v
run ip -json -details link show
section neighbours
if has ip; then ip -4 neigh show 2>/dev/null | wc -l; fi
count=0
for path in /sys/class/net/*; do
    name=${path##*/}
    [ -d "$path" ] && [ "$name" != lo ] && [ "$count" -lt 200 ] || continue
    count=$((count + 1))
    section "interface $name"
    values "$path/mtu" "$path/carrier" "$path/duplex" "$path/speed" "$path/flags" "$path/device/vendor" \
        "$path/device/device" "$path/device/subsystem_vendor" "$path/statistics/rx_packets" \
        "$path/statistics/rx_missed_errors" "$path/statistics/rx_fifo_errors" \
        "$path/statistics/rx_over_errors" "$path/statistics/rx_crc_errors" "$path/queues"/rx-*/rps_cpus
    if [ -e "$path/device" ]; then echo "$path/device:yes"; fi
    if [ -e "$path/device/driver" ]; then printf '%s:' "$path/device/driver"; readlink "$path/device/driver"; fi
    if [ -e "$path/master" ]; then printf '%s:' "$path/master"; readlink "$path/master"; fi
    for irq in "$path"/device/msi_irqs/* "$path"/device/../msi_irqs/*; do
        if [ -e "$irq" ]; then values "/proc/irq/${irq##*/}/effective_affinity_list"; fi
    done
    if has ethtool; then
        for option in "" -g -k -l; do
            # shellcheck disable=SC2086  # without an option there is no word
            run ethtool $option "$name"
        done
    fi
done
for file in /proc/net/bonding/*; do show "$file"; done
if has ovs-vsctl; then
    run ovs-vsctl --timeout=5 --format=json list Bridge
    run ovs-vsctl --timeout=5 --format=json list Port
    run ovs-vsctl --timeout=5 --format=json list Interface
fi
section end
