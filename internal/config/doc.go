// Package config is the one configuration tree of `barnabas serve` and
// `barnabas dev`.
//
// A value is taken from the last of these that gives it:
//
//	defaults        Default, or DefaultDev for `barnabas dev`
//	file            YAML, --config
//	environment     BARNABAS_ + the key in capitals, "." as "__":
//	                kafka.tls.ca_file is BARNABAS_KAFKA__TLS__CA_FILE
//	flags           --set key=value for every key, and a few short ones
//
// What is not understood is refused and not ignored: unknown keys and unknown
// BARNABAS_ variables (with the nearest known one), keys given twice, durations
// without a unit, empty list items. Load reports all problems of all sources at
// once, each a *KeyError that says which key and where it came from.
//
// Validate checks the values against each other too: a drain that outlasts the
// rebalance, a lifetime shorter than the schedule, are refused with the numbers.
//
// The package knows no other part of Barnabas but kafka's settings: internal/app
// turns the tree into the parts' own Config types. The reference page is made
// from the same field tags that the loader uses, so it cannot rot.
package config
