"""The lab `netns`: testbeds of network namespaces."""
