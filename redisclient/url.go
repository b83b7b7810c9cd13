package redisclient

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Mode is the kind of servers that an address names.
type Mode uint8

// The modes.
const (
	Single Mode = iota + 1
	Sentinel
	Cluster
)

// Address is the address of the servers, parsed from a URL:
//
//	redis://user:password@host:6379/0         one server
//	rediss://…                                over TLS
//	redis+sentinel://host:26379,host2/name/0  the primary that Sentinel calls name; rediss+sentinel:// over TLS
//	redis+cluster://host:6379,host2           a cluster; rediss+cluster:// over TLS
//
// User and password are optional, and so are the ports and the database number. Special characters
// in a password are percent-encoded.
type Address struct {
	Mode               Mode
	TLS                bool
	Hosts              []string // host:port
	Username, Password string
	Name               string // name of the primary that Sentinel watches
	DB                 int
}

// ParseURL parses an address. Its errors never contain the password.
func ParseURL(text string) (*Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	a := new(Address)
	kind, plain := strings.CutPrefix(scheme, "rediss")
	if a.TLS = plain; !a.TLS {
		kind, plain = strings.CutPrefix(scheme, "redis")
	}
	switch {
	case !ok || !plain:
		return nil, errors.New("redis: write the address like redis://127.0.0.1:6379, rediss://…, redis+sentinel://host:26379/name or redis+cluster://host:6379")
	case kind == "":
		a.Mode = Single
	case kind == "+sentinel":
		a.Mode = Sentinel
	case kind == "+cluster":
		a.Mode = Cluster
	default:
		return nil, errors.New("redis: the address begins with redis or rediss, and +sentinel or +cluster; nothing else is known")
	}
	if err := a.parseUser(&rest); err != nil {
		return nil, err
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(rest, "?#@") {
		return nil, errors.New("redis: the address has ? or # or a second @; percent-encode such a character in a password, and leave out options")
	}
	if err := a.parseHosts(hosts); err != nil {
		return nil, err
	}
	return a, a.parsePath(path)
}

// parseUser removes the user and password from the beginning.
func (a *Address) parseUser(rest *string) error {
	at := strings.LastIndexByte(*rest, '@')
	if at < 0 {
		return nil
	}
	user, password, _ := strings.Cut((*rest)[:at], ":")
	*rest = (*rest)[at+1:]
	var errs [2]error
	a.Username, errs[0] = url.PathUnescape(user)
	a.Password, errs[1] = url.PathUnescape(password)
	if errs[0] != nil || errs[1] != nil || strings.ContainsAny(user+password, "/?#") {
		return errors.New("redis: the address has a user or a password that is not percent-encoded rightly")
	}
	return nil
}

func (a *Address) parseHosts(text string) error {
	port := "6379"
	if a.Mode == Sentinel {
		port = "26379"
	}
	for one := range strings.SplitSeq(text, ",") {
		host, given, err := net.SplitHostPort(one)
		if err != nil {
			host, given = strings.Trim(one, "[]"), port
		}
		if n, err := strconv.Atoi(given); host == "" || strings.ContainsAny(host, " []") || err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("redis: %q is no host and port; write it like 127.0.0.1:%s", one, port)
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(host, given))
	}
	if a.Mode == Single && len(a.Hosts) > 1 {
		return errors.New("redis: the address names several servers; say redis+cluster:// or redis+sentinel://")
	}
	return nil
}

func (a *Address) parsePath(path string) error {
	db := strings.TrimSuffix(path, "/")
	if a.Mode == Sentinel {
		a.Name, db, _ = strings.Cut(db, "/")
		if a.Name == "" {
			return errors.New("redis: the address of Sentinel needs the name of the primary: redis+sentinel://host:26379/name")
		}
	}
	if db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 || a.Mode == Cluster && n > 0 {
		return errors.New("redis: the number of the database is none; a cluster has no databases but 0")
	}
	a.DB = n
	return nil
}
