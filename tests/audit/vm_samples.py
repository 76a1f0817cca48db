"""Descriptions of VMs, made for tests in the forms of VMware, libvirt and Proxmox VE."""

from __future__ import annotations

VMX = """\
.encoding = "UTF-8"
config.version = "8"
virtualHW.version = "19"
displayName = "web-01"
guestOS = "debian11-64"
numvcpus = "12"
cpuid.coresPerSocket = "6"
memSize = "8192"
vcpu.hotadd = "FALSE"
sched.cpu.min = "0"
sched.cpu.max = "unlimited"
sched.cpu.affinity = "all"
sched.cpu.latencySensitivity = "normal"
sched.mem.min = "0"
sched.mem.pin = "FALSE"
ethernet0.present = "TRUE"
ethernet0.virtualDev = "vmxnet3"
ethernet0.networkName = "VM Network"
ethernet0.addressType = "vpx"
ethernet0.generatedAddress = "00:50:56:aa:00:01"
ethernet0.startConnected = "TRUE"
ethernet1.present = "TRUE"
ethernet1.virtualDev = "vmxnet3"
ethernet1.addressType = "static"
ethernet1.address = "00:50:56:00:00:02"
ethernet1.coalescingScheme = "rbc"
ethernet1.coalescingParams = "16000"
ethernet1.ctxPerDev = "3"
ethernet1.pnicFeatures = "4"
scsi0.present = "TRUE"
scsi0.virtualDev = "pvscsi"
scsi0:0.present = "TRUE"
scsi0:0.fileName = "web-01.vmdk"
"""

DOMAIN = """\
<?xml version="1.0" encoding="UTF-8"?>
<domain type='kvm'>
  <name>web-01</name>
  <memory unit='KiB'>8388608</memory>
  <vcpu placement='static'>4</vcpu>
  <cputune>
    <vcpupin vcpu='0' cpuset='2'/>
    <vcpupin vcpu='1' cpuset='3'/>
    <emulatorpin cpuset='0-1'/>
  </cputune>
  <os><type arch='x86_64' machine='pc-q35-8.2'>hvm</type></os>
  <cpu mode='host-passthrough' check='none'/>
  <devices>
    <disk type='file' device='disk'>
      <source file='/var/lib/libvirt/images/web-01.qcow2'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/>
      <source bridge='br0'/>
      <model type='virtio'/>
      <driver name='vhost' queues='2'/>
      <link state='up'/>
    </interface>
    <interface type='direct'>
      <mac address='52:54:00:00:00:02'/>
      <source dev='eno1' mode='bridge'/>
      <model type='virtio'/>
    </interface>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>
  </devices>
</domain>
"""

QM_CONFIG = """\
# web-01
agent: 1
boot: order=scsi0;net0
cores: 4
cpu: x86-64-v2-AES
machine: pc-q35-9.0
memory: 8192
name: web-01
net0: virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,queues=2
net1: virtio=BC:24:11:00:00:02,bridge=vmbr1
numa: 0
ostype: l26
scsi0: local-lvm:vm-101-disk-0,size=32G
scsihw: virtio-scsi-single
sockets: 1
vmgenid: 00000000-0000-0000-0000-000000000001

[before-upgrade]
cores: 1
net0: e1000=BC:24:11:00:00:01,bridge=vmbr0
scsihw: lsi
"""
