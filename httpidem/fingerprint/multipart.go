package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
)

// writeMultipart writes the parts of a multipart/form-data body (RFC 7578), sorted by name. The
// bytes of a part count as they were sent, in their transfer encoding, if any.
func (w *formWriter) writeMultipart(contentType string, body []byte) (kept bool, err error) {
	_, options, err := mime.ParseMediaType(contentType)
	if err != nil || options["boundary"] == "" {
		return false, fmt.Errorf("%w: the content type of the multipart body has no boundary that can be read", ErrMalformed)
	}
	// The standard library's reader accepts a body that ends within the head of a part.
	if last := []byte("\n--" + options["boundary"] + "--"); !bytes.Contains(body, last) && !bytes.HasPrefix(body, last[1:]) {
		return false, fmt.Errorf("%w: the multipart body has no end", ErrMalformed)
	}
	w.clearParams()
	parts := multipart.NewReader(bytes.NewReader(body), options["boundary"])
	for i := 1; ; i++ {
		part, err := parts.NextRawPart()
		if err == io.EOF { // a wrapped io.EOF is in the middle of a part
			break
		}
		if err != nil {
			return false, fmt.Errorf("%w: part %d of the multipart body has no end, or a head that cannot be read", ErrMalformed, i)
		}
		p, ok := readPart(part)
		if !ok {
			return false, fmt.Errorf("%w: part %d of the multipart body needs one Content-Disposition of the form: form-data; name=\"…\"", ErrMalformed, i)
		}
		if !w.keepsField(p.name, w.paths) {
			p = param{}
		}
		h := sha256.New()
		if _, err := io.Copy(h, part); err != nil {
			return false, fmt.Errorf("%w: part %d of the multipart body has no end", ErrMalformed, i)
		}
		if p.name == "" {
			continue
		}
		p.value = string(h.Sum(nil))
		w.params = append(w.params, p)
	}
	w.sortParams()
	w.out = binary.AppendUvarint(w.out, uint64(len(w.params)))
	for _, p := range w.params {
		w.writeText(p.name)
		kind := byte('v')
		if p.isFile {
			kind = 'f'
		}
		w.out = append(w.out, kind)
		w.writeText(p.file)
		w.writeText(p.media)
		w.writeText(p.encoding)
		w.writeText(p.value)
	}
	return len(w.params) > 0, nil
}

// readPart reads the head of a part. It requires a name, and refuses a repeated header line:
// programs differ in which one they use.
func readPart(part *multipart.Part) (param, bool) {
	lines := part.Header["Content-Disposition"]
	if len(lines) != 1 || len(part.Header["Content-Type"]) > 1 || len(part.Header["Content-Transfer-Encoding"]) > 1 {
		return param{}, false
	}
	disposition, options, err := mime.ParseMediaType(lines[0])
	if err != nil || disposition != "form-data" || options["name"] == "" {
		return param{}, false
	}
	file, isFile := options["filename"]
	return param{
		name: options["name"], file: file, isFile: isFile,
		media: part.Header.Get("Content-Type"), encoding: part.Header.Get("Content-Transfer-Encoding"),
	}, true
}
