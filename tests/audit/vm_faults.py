"""Faults of VMs: the rule that must find each, and what is replaced in a clean sample."""

from __future__ import annotations

from tests.audit.planting import TextFault
from tests.audit.vm_samples import DOMAIN, QM_CONFIG, VMX

VIRTIO = "<model type='virtio'/>\n      <driver name='vhost' queues='2'/>"

LOCKED = ('sched.mem.pin = "FALSE"', 'sched.mem.pin = "TRUE"')

VMX_FAULTS: list[TextFault] = [
    (
        "emulated_adapter_in_vsphere",
        "vmx",
        VMX,
        (('ethernet0.virtualDev = "vmxnet3"', 'ethernet0.virtualDev = "e1000e"'),),
    ),
    (
        "hardware_version_without_vmxnet3",
        "vmx",
        VMX,
        (('virtualHW.version = "19"', 'virtualHW.version = "4"'),),
    ),
    ("hardware_version_old", "vmx", VMX, (('virtualHW.version = "19"', 'virtualHW.version = "8"'),)),
    ("hot_add_disables_vnuma", "vmx", VMX, (('vcpu.hotadd = "FALSE"', 'vcpu.hotadd = "TRUE"'),)),
    ("uneven_sockets", "vmx", VMX, (('cpuid.coresPerSocket = "6"', 'cpuid.coresPerSocket = "5"'),)),
    (
        "latency_sensitivity_without_reservation",
        "vmx",
        VMX,
        (('Sensitivity = "normal"', 'Sensitivity = "high"'),),
    ),
    (
        "latency_sensitivity_without_cpu",
        "vmx",
        VMX,
        (('Sensitivity = "normal"', 'Sensitivity = "high"'), LOCKED),
    ),
    (
        "latency_sensitivity_high",
        "vmx",
        VMX,
        (
            ('Sensitivity = "normal"', 'Sensitivity = "high"'),
            LOCKED,
            ('sched.cpu.min = "0"', 'sched.cpu.min = "24000"'),
        ),
    ),
    (
        "passthrough_without_reservation",
        "vmx",
        VMX,
        (('scsi0.present = "TRUE"', 'scsi0.present = "TRUE"\npciPassthru0.present = "TRUE"'),),
    ),
    (
        "upt_without_requirements",
        "vmx",
        VMX,
        (('virtualHW.version = "19"', 'virtualHW.version = "20"\nethernet0.uptv2Enabled = "TRUE"'),),
    ),
    (
        "upt_with_old_hardware",
        "vmx",
        VMX,
        (('sched.mem.pin = "FALSE"', 'sched.mem.pin = "TRUE"\nethernet0.uptv2Enabled = "TRUE"'),),
    ),
    ("cpu_affinity_set", "vmx", VMX, (('affinity = "all"', 'affinity = "2,3"'),)),
    ("numa_affinity_set", "vmx", VMX, (('numvcpus = "12"', 'numvcpus = "12"\nnuma.nodeAffinity = "0"'),)),
    ("cpu_limit_in_vsphere", "vmx", VMX, (('sched.cpu.max = "unlimited"', 'sched.cpu.max = "2000"'),)),
    ("memory_limit_in_vsphere", "vmx", VMX, (('sched.mem.min = "0"', 'sched.mem.max = "4096"'),)),
    ("invalid_coalescing", "vmx", VMX, (('coalescingParams = "16000"', 'coalescingParams = "7"'),)),
    ("coalescing_disabled", "vmx", VMX, (('coalescingScheme = "rbc"', 'coalescingScheme = "disabled"'),)),
    ("queue_threads_without_rss", "vmx", VMX, (('pnicFeatures = "4"', 'pnicFeatures = "1"'),)),
    ("adapter_not_connected", "vmx", VMX, (('startConnected = "TRUE"', 'startConnected = "FALSE"'),)),
    ("duplicate_mac_address", "vmx", VMX, (("00:50:56:00:00:02", "00:50:56:AA:00:01"),)),
    (
        "scsi_controller_emulated",
        "vmx",
        VMX,
        (('scsi0.virtualDev = "pvscsi"', 'scsi0.virtualDev = "lsilogic"'),),
    ),
]

KVM_FAULTS: list[TextFault] = [
    ("emulated_adapter_in_kvm", "libvirt", DOMAIN, ((VIRTIO, "<model type='e1000'/>"),)),
    ("emulated_adapter_in_kvm", "proxmox", QM_CONFIG, (("net1: virtio=", "net1: rtl8139="),)),
    ("vhost_off", "libvirt", DOMAIN, (("name='vhost'", "name='qemu'"),)),
    ("user_network", "libvirt", DOMAIN, (("<interface type='bridge'>", "<interface type='user'>"),)),
    ("queues_above_vcpus", "libvirt", DOMAIN, (("queues='2'", "queues='8'"),)),
    ("queues_above_vcpus", "proxmox", QM_CONFIG, (("queues=2", "queues=8"),)),
    ("one_queue_with_many_vcpus", "libvirt", DOMAIN, (("'static'>4<", "'static'>16<"),)),
    (
        "mtu_ignored",
        "proxmox",
        QM_CONFIG,
        (("net1: virtio=BC:24:11:00:00:02", "net1: xennet=BC:24:11:00:00:02,model=xennet,mtu=9000"),),
    ),
    ("adapter_without_bridge", "proxmox", QM_CONFIG, ((",bridge=vmbr1", ""),)),
    (
        "offloads_off_in_domain",
        "libvirt",
        DOMAIN,
        (
            (
                "<driver name='vhost' queues='2'/>",
                "<driver name='vhost' queues='2'><host tso4='off'/></driver>",
            ),
        ),
    ),
    ("emulator_on_vcpu_cpus", "libvirt", DOMAIN, (("emulatorpin cpuset='0-1'", "emulatorpin cpuset='0-2'"),)),
    ("macvtap_in_vepa_mode", "libvirt", DOMAIN, ((" mode='bridge'", ""),)),
    (
        "rate_limit_on_adapter",
        "libvirt",
        DOMAIN,
        (("<link state='up'/>", "<bandwidth><inbound average='1000'/></bandwidth>"),),
    ),
    ("rate_limit_on_adapter", "proxmox", QM_CONFIG, (("bridge=vmbr1", "bridge=vmbr1,rate=10"),)),
    ("no_hardware_virtualisation", "libvirt", DOMAIN, (("<domain type='kvm'>", "<domain type='qemu'>"),)),
    ("no_hardware_virtualisation", "proxmox", QM_CONFIG, (("cores: 4", "cores: 4\nkvm: 0"),)),
    ("generic_cpu_model", "libvirt", DOMAIN, (("<cpu mode='host-passthrough' check='none'/>", ""),)),
    ("generic_cpu_model", "proxmox", QM_CONFIG, (("cpu: x86-64-v2-AES\n", ""),)),
    ("cpu_limit_in_kvm", "libvirt", DOMAIN, (("<cputune>", "<cputune><vcpu_quota>50000</vcpu_quota>"),)),
    ("cpu_limit_in_kvm", "proxmox", QM_CONFIG, (("cores: 4", "cores: 4\ncpulimit: 2"),)),
    ("sockets_without_numa", "proxmox", QM_CONFIG, (("sockets: 1", "sockets: 2"), ("cores: 4", "cores: 2"))),
    ("guest_agent_off", "libvirt", DOMAIN, (("org.qemu.guest_agent.0", "com.redhat.spice.0"),)),
    ("guest_agent_off", "proxmox", QM_CONFIG, (("agent: 1\n", ""),)),
    ("short_virtio_ring", "proxmox", QM_CONFIG, (("pc-q35-9.0", "pc-q35-6.2"),)),
    ("disk_controller_emulated", "libvirt", DOMAIN, (("bus='virtio'", "bus='sata'"),)),
    ("disk_controller_emulated", "proxmox", QM_CONFIG, (("virtio-scsi-single", "lsi"),)),
    ("adapter_not_connected", "libvirt", DOMAIN, (("<link state='up'/>", "<link state='down'/>"),)),
    (
        "duplicate_mac_address",
        "proxmox",
        QM_CONFIG,
        (("net1: virtio=BC:24:11:00:00:02", "net1: virtio=bc:24:11:00:00:01"),),
    ),
]
