"""Reports of a campaign: terminal tables, text, charts, the page and exports."""
