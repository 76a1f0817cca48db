// Runs govmomi's simulator of vCenter over TLS, prints its address, and ends when standard input ends.
// An argument names a JSON file with network settings that replace those of the host.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

func main() {
	model := simulator.VPX()
	model.Host, model.Machine = 1, 12
	model.Cluster, model.Portgroup = 0, 1
	check(model.Create())
	for _, entity := range model.Map().All("HostSystem") {
		host := entity.(*simulator.HostSystem)
		system := model.Map().Get(*host.ConfigManager.NetworkSystem).(*simulator.HostNetworkSystem)
		system.NetworkInfo = host.Config.Network // As on a real host.
		if len(os.Args) > 1 {
			file, err := os.Open(os.Args[1])
			check(err)
			// Elements of lists keep the settings that the file does not name.
			check(types.NewJSONDecoder(file).Decode(system.NetworkInfo))
		}
	}
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword("audit", "s3cret")}
	model.Service.TLS = new(tls.Config)
	server := model.Service.NewServer()
	fmt.Println(server.URL.Host)
	io.Copy(io.Discard, os.Stdin)
	server.Close()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
