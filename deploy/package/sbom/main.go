// Command sbom writes the SPDX document of a Go program: its modules as recorded in the
// program, their checksums, and the licences that their files contain. It uses no
// network. Equal programs and arguments give equal documents.
//
//	sbom -program FILE -version VERSION -date SECONDS <MODULES
//
// MODULES has one line "PATH VERSION FOLDER" for each module.
package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/licensecheck"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
)

func main() {
	program := flag.String("program", "", "the program to describe")
	version := flag.String("version", "", "its version")
	date := flag.Int64("date", 0, "its date, in seconds since 1970")
	flag.Parse()
	if err := writeDocument(os.Stdout, *program, *version, *date, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func writeDocument(to io.Writer, program, version string, date int64, modules io.Reader) error {
	folders, err := readFolders(modules)
	if err != nil {
		return err
	}
	doc, err := describeProgram(program, version, time.Unix(date, 0).UTC(), folders)
	if err != nil {
		return err
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		return err
	}
	return json.Write(doc, to, json.Indent(" "))
}

// readFolders returns the folders of the modules, by path and version.
func readFolders(r io.Reader) (map[string]string, error) {
	folders := map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) != 3 {
			return nil, fmt.Errorf("the line %q is not PATH VERSION FOLDER", lines.Text())
		}
		folders[field[0]+"@"+field[1]] = field[2]
	}
	return folders, lines.Err()
}

func describeProgram(program, version string, date time.Time, folders map[string]string) (*spdx.Document, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	name, digest := filepath.Base(program), hex.EncodeToString(sum[:])
	root := &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: "Package-" + spdx.ElementID(name), PackageVersion: version, PackageFileName: name,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
		PackageCopyrightText: "NOASSERTION", PrimaryPackagePurpose: "APPLICATION",
		PackageChecksums: []spdx.Checksum{{Algorithm: spdx.SHA256, Value: digest}},
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name + "-" + version,
		DocumentNamespace: "https://mesos-gpu.invalid/spdx/" + name + "-" + version + "-" + digest,
		CreationInfo:      &spdx.CreationInfo{Created: date.Format(time.RFC3339), Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "mesos-gpu-sbom"}}},
		Packages:          []*spdx.Package{root, standardLibrary(info.GoVersion)},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p, err := describeModule(m.Path, m.Version, m.Sum, folders[m.Path+"@"+m.Version])
		if err != nil {
			return nil, err
		}
		doc.Packages = append(doc.Packages, p)
	}
	slices.SortFunc(doc.Packages[1:], func(a, b *spdx.Package) int { return cmp.Compare(a.PackageName, b.PackageName) })
	for i, p := range doc.Packages {
		r := &spdx.Relationship{
			RefA:         common.MakeDocElementID("", string(root.PackageSPDXIdentifier)),
			RefB:         common.MakeDocElementID("", string(p.PackageSPDXIdentifier)),
			Relationship: common.TypeRelationshipContains,
		}
		if i == 0 {
			r.RefA, r.Relationship = common.MakeDocElementID("", "DOCUMENT"), common.TypeRelationshipDescribe
		}
		doc.Relationships = append(doc.Relationships, r)
	}
	return doc, nil
}

func standardLibrary(version string) *spdx.Package {
	number := strings.TrimPrefix(version, "go")
	return &spdx.Package{
		PackageName:               "stdlib",
		PackageSPDXIdentifier:     "Package-go-stdlib",
		PackageVersion:            version,
		PackageSupplier:           &spdx.Supplier{SupplierType: "Organization", Supplier: "Go"},
		PackageDownloadLocation:   "https://go.dev/dl/" + version + ".src.tar.gz",
		PackageLicenseConcluded:   "BSD-3-Clause",
		PackageLicenseDeclared:    "BSD-3-Clause",
		PackageCopyrightText:      "NOASSERTION",
		PackageExternalReferences: packageURL("pkg:golang/stdlib@" + number),
	}
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func describeModule(path, version, sum, folder string) (*spdx.Package, error) {
	if folder == "" {
		return nil, fmt.Errorf("the folder of %s %s is not among the modules", path, version)
	}
	license, err := findLicense(folder)
	if err != nil {
		return nil, err
	}
	p := &spdx.Package{
		PackageName: path, PackageSPDXIdentifier: spdx.ElementID("Package-" + notInID.ReplaceAllString(path+"-"+version, "-")), PackageVersion: version,
		PackageDownloadLocation: "https://proxy.golang.org/" + escapeUpper(path) + "/@v/" + escapeUpper(version) + ".zip",
		PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: packageURL("pkg:golang/" + path + "@" + version),
	}
	// h1 is a SHA-256 over the names and checksums of the module's files.
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) == sha256.Size {
		p.PackageSourceInfo = "go.sum: " + sum
	}
	return p, nil
}

func packageURL(url string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url}}
}

// escapeUpper returns the form of a path or version in the module proxy's addresses.
func escapeUpper(path string) string {
	return regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(path, func(c string) string { return "!" + strings.ToLower(c) })
}

var licenseFile = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^copying`)

// findLicense returns the licences in the files of a module's folder as an SPDX
// expression, or NOASSERTION if most of their text matches no known licence.
func findLicense(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", err
		}
		cover := licensecheck.Scan(text)
		if cover.Percent < 60 {
			return "NOASSERTION", nil
		}
		for _, m := range cover.Match {
			if !m.IsURL {
				found = append(found, m.ID)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) == 0 {
		return "NOASSERTION", nil
	}
	return strings.Join(found, " AND "), nil
}
