package topics

// Partition is where Kafka's default partitioner puts a key: murmur2 mod n.
// n is at least 1.
func Partition(key string, n int) int32 {
	return int32(int(murmur2(key)&0x7fffffff) % n)
}

// murmur2 is the 32-bit MurmurHash2 with the seed that Kafka's Java client
// uses (org.apache.kafka.common.utils.Utils.murmur2).
func murmur2(key string) uint32 {
	const m, r = 0x5bd1e995, 24
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
