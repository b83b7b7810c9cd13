package httpsig

import (
	"crypto"
	"net/http"
)

// Public returns the public key of k.
func (k Key) Public() crypto.PublicKey {
	if k.ed != nil {
		return k.ed
	}
	return k.ec
}

// SignChanged is Sign with a change of the fields before they are signed, as by a client with a
// bug.
func SignChanged(s *Signer, r *http.Request, change func(http.Header)) error {
	body, err := s.readAndDigest(r)
	if err != nil {
		return err
	}
	change(r.Header)
	return s.signHead(r, body)
}

// FixNonce makes s sign with one nonce.
func FixNonce(s *Signer, nonce string) { s.nonce = func() string { return nonce } }
