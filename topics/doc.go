// Package topics is the catalogue of Barnabas's topics: their names, keys,
// headers, partitioning and wanted settings. It compares the catalogue with a
// cluster (plan), brings the cluster in line (apply), refuses a cluster that
// cannot hold the promises (verify), and reads the group's lag.
package topics
