package schemas

// Layout lists the fields of a schema, as those that the code names are held against it.
func Layout(text string) ([]string, error) {
	plain, _, err := compile(text)
	if err != nil {
		return nil, err
	}
	return layout("", plain, map[string]any{})
}

// Lister is a pointer to any record.
type Lister interface{ fields(d *datum) }

// Listed lists the fields that the code of a record names.
func Listed(v Lister) []string {
	d := datum{mode: listing}
	v.fields(&d)
	return d.listed
}
