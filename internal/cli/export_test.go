package cli

// For the test that compares the aliases with the flags of all commands. Their packages
// import this one.
var (
	FlagAliases      = flagAliases
	FlagAlternatives = flagAlternatives
)
