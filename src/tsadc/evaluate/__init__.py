"""Metrics, without torch: of observations (`ranking`), of rows and events (`volume`, `ranges`, `affiliation`,
`delay`), of blamed variables (`blame`), and of detectors against each other (`bootstrap`, `compare`)."""
