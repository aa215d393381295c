package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// archive is files that become a .tar.gz with a README that says what each of them is, and what is missing.
type archive struct {
	folder  string // in which all files are
	made    time.Time
	files   []archived
	missing []string
}

// archived is a file of an archive: its bytes, or another file that has them.
type archived struct {
	name, what string
	text       []byte
	from       *os.File
	size       int64
}

// add adds a file that write writes, with a sentence on what it is. What cannot be written is named in the README, with what there is of it.
func (a *archive) add(name, what string, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		a.missing = append(a.missing, fmt.Sprintf("%s: %v", name, err))
	}
	if b.Len() > 0 {
		a.files = append(a.files, archived{name: name, what: what, text: b.Bytes(), size: int64(b.Len())})
	}
}

// addFile adds the bytes of an open file, from its begin.
func (a *archive) addFile(name, what string, from *os.File) error {
	size, err := from.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err == nil {
		a.files = append(a.files, archived{name: name, what: what, from: from, size: size})
	}
	return err
}

// readme is the README, begun with an introduction.
func (a *archive) readme(introduction string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", introduction)
	for _, f := range a.files {
		fmt.Fprintf(&b, "%-28s %s\n", f.name, f.what)
	}
	if len(a.missing) > 0 {
		fmt.Fprintf(&b, "\nNot there, or not whole:\n")
		for _, text := range a.missing {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	return b.Bytes()
}

// write writes the archive, its README first.
func (a *archive) write(w io.Writer, introduction string) error {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	text := a.readme(introduction)
	files := append([]archived{{name: "README.txt", text: text, size: int64(len(text))}}, a.files...)
	for i := range files {
		if err := a.writeFile(out, &files[i]); err != nil {
			return fmt.Errorf("%s: %w", files[i].name, err)
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

func (a *archive) writeFile(out *tar.Writer, f *archived) error {
	err := out.WriteHeader(&tar.Header{Name: a.folder + "/" + f.name, Mode: 0o600, Size: f.size, ModTime: a.made, Typeflag: tar.TypeReg})
	if err != nil {
		return err
	}
	if f.from != nil {
		_, err = io.CopyN(out, f.from, f.size)
		return err
	}
	_, err = out.Write(f.text)
	return err
}
