package admin

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed console
var consoleFiles embed.FS

// consoleFile is a file of the page, as it is and compressed.
type consoleFile struct {
	media         string
	plain, packed []byte
}

// consoleHandler serves the page of the console. Its files are public: they have no data.
func consoleHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			newProblem(http.StatusMethodNotAllowed, "no-such-path", "the console is read by GET").write(w)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		f, ok := consoleFilesByName()[name]
		if !ok {
			newProblem(http.StatusNotFound, "no-such-path", "the console is at /, and its API at "+prefix).write(w)
			return
		}
		f.write(w, strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
	})
}

func (f *consoleFile) write(w http.ResponseWriter, packed bool) {
	h, body := w.Header(), f.plain
	h.Set("Vary", "Accept-Encoding")
	if packed {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	h.Set("Content-Type", f.media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have gone
}

// mediaOf are the types of the page's files, whatever the machine knows of them.
var mediaOf = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// consoleFilesByName has the files of the page. They are read and compressed once, when one is
// asked for.
var consoleFilesByName = sync.OnceValue(readConsole)

func readConsole() map[string]*consoleFile {
	files := map[string]*consoleFile{}
	entries, err := fs.ReadDir(consoleFiles, "console")
	for _, e := range entries {
		f := &consoleFile{media: mediaOf[path.Ext(e.Name())]}
		f.plain, err = consoleFiles.ReadFile("console/" + e.Name())
		if err != nil {
			break
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
		_, _ = z.Write(f.plain)                                    // a buffer takes everything
		_ = z.Close()
		f.packed = packed.Bytes()
		files[e.Name()] = f
	}
	if err != nil {
		panic(err) // the folder is embedded
	}
	return files
}
