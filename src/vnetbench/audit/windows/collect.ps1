# Print what the audit reads of a Windows machine, as JSON. It changes nothing.
# Use: powershell -ExecutionPolicy Bypass -File collect.ps1 > GUEST.json, then vnetbench audit GUEST.json
$ErrorActionPreference = 'SilentlyContinue'
# ConvertTo-Json writes enumerations as numbers; their names are what the documentation has.
function Select-Texts($objects, [string[]]$properties) {
    @($objects | ForEach-Object {
        $row = [ordered]@{}
        foreach ($property in $properties) { $row[$property] = [string]$_.$property }
        [pscustomobject]$row
    })
}
function Select-All($objects, [string[]]$properties) { @($objects | Select-Object -Property $properties) }
$tools = Get-Service -Name VMTools
$document = [ordered]@{
    vnetbench_windows_audit = 1
    computer = $env:COMPUTERNAME
    manufacturer = (Get-CimInstance Win32_ComputerSystem).Manufacturer
    model = (Get-CimInstance Win32_ComputerSystem).Model
    cpus = [int]$env:NUMBER_OF_PROCESSORS
    power_plan = [string](Get-CimInstance -Namespace root\cimv2\power -ClassName Win32_PowerPlan -Filter 'IsActive = True').InstanceID
    vmtools_installed = [bool]$tools
    vmtools_running = [bool]($tools -and $tools.Status -eq 'Running')
    adapters = Select-All (Get-NetAdapter -Physical) @('Name', 'InterfaceDescription', 'DriverVersion', 'DriverDate', 'Status', 'MtuSize', 'FullDuplex', 'Speed')
    rss = Select-All (Get-NetAdapterRss) @('Name', 'Enabled', 'NumberOfReceiveQueues')
    rsc = Select-All (Get-NetAdapterRsc) @('Name', 'IPv4Enabled', 'IPv4OperationalState')
    lso = Select-All (Get-NetAdapterLso) @('Name', 'V2IPv4Enabled')
    checksum = Select-Texts (Get-NetAdapterChecksumOffload) @('Name', 'TcpIPv4Enabled')
    statistics = Select-All (Get-NetAdapterStatistics) @('Name', 'ReceivedUnicastPackets', 'ReceivedDiscardedPackets')
    advanced = Select-All (Get-NetAdapterAdvancedProperty) @('Name', 'RegistryKeyword', 'DisplayValue')
    offload = Select-Texts (Get-NetOffloadGlobalSetting) @('ReceiveSideScaling', 'ReceiveSegmentCoalescing', 'TaskOffload')
    tcp = Select-Texts (Get-NetTCPSetting -SettingName Internet) @('SettingName', 'AutoTuningLevelLocal')
}
$text = $document | ConvertTo-Json -Depth 4 -Compress
[Console]::Out.WriteLine($text)
