package rocketmqidem

import (
	"bytes"
	"io"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The bits of a message's flags that say how its body is compressed. The source is RocketMQ's
// CompressionType.
const (
	compressionBits = 0x7 << 8
	compressionLZ4  = 0x1 << 8
	compressionZSTD = 0x2 << 8
)

// longestBody is the longest body that is decompressed. A producer sends at most 4 MiB by default,
// before it compresses.
const longestBody = 64 << 20

// decompressed returns the body as its producer has given it. The Go client knows zlib alone, which
// is what producers use by default. A body that cannot be decompressed is returned as it is, as the
// client does.
func decompressed(r *primitive.MessageExt) []byte {
	if r.SysFlag&primitive.FlagCompressed == 0 {
		return r.Body
	}
	var from io.Reader
	switch r.SysFlag & compressionBits {
	case compressionLZ4:
		from = lz4.NewReader(bytes.NewReader(r.Body))
	case compressionZSTD:
		d, err := zstd.NewReader(bytes.NewReader(r.Body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(longestBody))
		if err != nil {
			return r.Body
		}
		defer d.Close()
		from = d
	default:
		return r.Body
	}
	body, err := io.ReadAll(io.LimitReader(from, longestBody+1))
	if err != nil || len(body) > longestBody {
		return r.Body
	}
	return body
}
