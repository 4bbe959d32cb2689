package cluster

import (
	"fmt"
	"math"
	"strconv"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
)

// budgetRow is one amount of a role's budget.
type budgetRow struct {
	role string
	api.BudgetUse
}

// printRoleBudgets prints what is used of the budgets of roles, of one role or one user if it is named. Without a budget it
// prints nothing.
func printRoleBudgets(p *term.TablePrinter, roles []api.RoleStatus, role, user string) error {
	var rows []budgetRow
	for i := range roles {
		for _, b := range roles[i].Budgets {
			if (role == "" || role == roles[i].Name) && (user == "" || user == b.User || b.User == "") {
				rows = append(rows, budgetRow{roles[i].Name, b})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return printBudgetRows(p, rows)
}

func printBudgets(p *term.TablePrinter, role string, list []api.BudgetUse) error {
	rows := make([]budgetRow, len(list))
	for i := range list {
		rows[i] = budgetRow{role, list[i]}
	}
	return printBudgetRows(p, rows)
}

func printBudgetRows(p *term.TablePrinter, rows []budgetRow) error {
	return term.PrintTable(p, rows, []term.TableColumn[budgetRow]{
		{Name: "ROLE", Value: func(r budgetRow) string { return r.role }},
		{Name: "USER", Value: func(r budgetRow) string { return term.DashIfEmpty(r.User) }},
		{Name: "TYPE", Value: func(r budgetRow) string { return r.Type }},
		{Name: "USED THIS MONTH", Value: func(r budgetRow) string { return formatBudgetAmount(r.Used, r.Priced) }},
		{Name: "BUDGET", Value: func(r budgetRow) string { return formatBudgetAmount(r.Budget, r.Priced) }},
		{Name: "PART", Value: func(r budgetRow) string { return fmt.Sprintf("%.0f%%", math.Floor(100*r.Used/r.Budget)) }},
		{Name: "AT LIMIT", Value: func(r budgetRow) string { return r.AtLimit }},
		{Name: "HELD TASKS", Value: func(r budgetRow) string { return fmt.Sprint(r.HeldTasks) }},
	})
}

// formatBudgetAmount writes GPU hours as "12.5h", costs without a unit.
func formatBudgetAmount(n float64, isPriced bool) string {
	unit := "h"
	if isPriced {
		unit = ""
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) + unit
}
