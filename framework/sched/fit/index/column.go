package index

// NoValue is the value number of an agent that lacks the field of a Column.
const NoValue = int32(-1)

// Column stores one field of all agents. Equal values share a number.
type Column struct {
	// ids has the value number of each agent, or NoValue. values are the distinct values by number, byText their numbers.
	ids    []int32
	values []string
	byText map[string]int32
}

// NewColumn reads the field of each agent with value.
func NewColumn(agents int, value func(i int) (text string, ok bool)) *Column {
	c := &Column{ids: make([]int32, agents), byText: map[string]int32{}}
	for i := range c.ids {
		c.ids[i] = NoValue
		text, ok := value(i)
		if !ok {
			continue
		}
		id, seen := c.byText[text]
		if !seen {
			id = int32(len(c.values))
			c.byText[text] = id
			c.values = append(c.values, text)
		}
		c.ids[i] = id
	}
	return c
}

// IDs returns the value number of each agent, or NoValue. The caller must not
// change the slice.
func (c *Column) IDs() []int32 { return c.ids }

// Values returns the distinct values by number. The caller must not change
// the slice.
func (c *Column) Values() []string { return c.values }

// Find returns the number of a value, and false if no agent has it.
func (c *Column) Find(text string) (id int32, ok bool) {
	id, ok = c.byText[text]
	return id, ok
}
