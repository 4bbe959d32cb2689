package jobfile

import (
	"maps"

	"mesos-gpu/job"
)

// The shapes of values that have parts of their own, in the order of the keys.

func matrixShape() shape {
	entry := named(anyWordShape())
	entry["minProperties"] = 1
	entries := sequence(0, entry)
	s := object(map[string]shape{"include": entries, "exclude": entries})
	s["additionalProperties"] = sequence(1, anyWordShape())
	s["propertyNames"], s["minProperties"] = shape{"pattern": variable}, 1
	return s
}

func shareShape() shape {
	s := object(map[string]shape{
		"memory": {"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": "^(" + amount + "|" + percent + ")$"},
		"cores":  integer(0, 100),
		"gpus":   integer(1, job.MaxGPUs),
	})
	s["anyOf"] = []shape{{"required": []string{"memory"}}, {"required": []string{"cores"}}}
	return s
}

func wordsShape() shape { return either(wordShape(""), sequence(1, wordShape(""))) }

func includedShape() shape {
	return either(wordsShape(), object(map[string]shape{"include": wordsShape(), "exclude": wordsShape()}))
}

func constraintsShape() shape {
	words := sequence(2, wordShape(""))
	words["maxItems"] = 3
	return sequence(0, either(wordShape(" "), words))
}

func limitsShape() shape {
	return object(map[string]shape{
		"cpus": either(oneOf(job.UnlimitedText), numberShape()),
		"mem":  either(oneOf(job.UnlimitedText), sizeShape()),
	})
}

func commandShape() shape { return either(wordShape(""), sequence(1, anyWordShape())) }

func pairsShape() shape { return named(anyWordShape()) }

func envShape() shape {
	s := pairsShape()
	s["propertyNames"] = shape{"pattern": "^[^=]+$"}
	return s
}

func secretsShape() shape {
	s := named(wordShape(secretName))
	s["propertyNames"] = shape{"pattern": variable}
	return s
}

func fetchShape() shape {
	return sequence(0, either(wordShape(""), object(map[string]shape{
		"uri": wordShape(""), "path": wordShape(""), "extract": flagShape(), "executable": flagShape(), "cache": flagShape(),
	}, "uri")))
}

func volumesShape() shape {
	return sequence(0, either(wordShape(`^[^:]+:[^:]+(:(ro|rw))?$`), object(map[string]shape{
		"source": wordShape(""), "target": wordShape(""), "read_only": flagShape(), "driver": wordShape(""),
	}, "source", "target")))
}

func portsShape() shape {
	one := shape{"type": []string{"integer", "string"}, "minimum": 1, "maximum": 65535, "pattern": portText}
	return either(integer(0, job.MaxPorts), sequence(0, either(one, object(map[string]shape{
		"name": wordShape(""), "container": portNumberShape(), "host": portNumberShape(), "protocol": oneOf(job.TCP, job.UDP),
	}))))
}

func portNumberShape() shape { return integer(1, 65535) }

func ulimitsShape() shape {
	return named(shape{"type": []string{"integer", "string"}, "minimum": job.Unlimited, "pattern": ulimit})
}

func parametersShape() shape {
	return sequence(0, either(wordShape(`^[^=]+=`), object(map[string]shape{"key": wordShape(""), "value": anyWordShape()}, "key")))
}

func healthShape() shape {
	known := checkShapes()
	known["grace"] = durationShape()
	known["failures"] = either(oneOf(never), integer(1, job.MaxRetries))
	one := wayed(object(known))
	several := sequence(1, one)
	several["maxItems"] = job.MaxHealthChecks
	return either(one, several)
}

func checkShape() shape { return wayed(object(checkShapes())) }

// wayed needs exactly one of the ways to check.
func wayed(s shape) shape {
	s["oneOf"] = []shape{{"required": []string{"command"}}, {"required": []string{"http"}}, {"required": []string{"tcp"}}}
	return s
}

func checkShapes() map[string]shape {
	one := shape{"not": shape{"required": []string{"port", "port_index"}}}
	port := map[string]shape{"port": portNumberShape(), "port_index": integer(0, job.MaxPorts-1)}
	http, tcp := object(map[string]shape{
		"port": port["port"], "port_index": port["port_index"], "path": wordShape("^/"), "tls": flagShape(),
	}), object(port)
	maps.Copy(http, one)
	maps.Copy(tcp, one)
	return map[string]shape{
		"command": commandShape(),
		"http":    either(wordShape(""), http),
		"tcp":     either(portNumberShape(), tcp),
		"delay":   durationShape(), "interval": durationShape(), "timeout": durationShape(),
	}
}

func serviceShape() shape {
	return either(flagShape(), object(map[string]shape{
		"backoff": durationShape(), "backoff_factor": numberShape(), "backoff_max": durationShape(),
		"replace_after": either(oneOf(never), durationShape()),
	}))
}

func afterShape() shape {
	one := object(map[string]shape{"job": wordShape(""), "state": oneOf(job.Finish, job.End, job.Fail)}, "job")
	return either(wordShape(""), sequence(1, either(wordShape(""), one)))
}

func scheduleShape() shape {
	return either(wordShape(""), object(map[string]shape{
		"cron": wordShape(""), "time_zone": wordShape(""), "overlap": oneOf(job.SkipOverlap, job.AllowOverlap, job.ReplaceOverlap), "history": integer(1, job.MaxHistory),
	}, "cron"))
}
