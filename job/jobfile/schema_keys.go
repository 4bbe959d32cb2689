package jobfile

import (
	"maps"

	"mesos-gpu/job"
)

// The shapes of values that have parts of their own, in the order of the keys.

func matrixSchema() valueSchema {
	entry := mapSchema(anyWordSchema())
	entry["minProperties"] = 1
	entries := listSchema(0, entry)
	s := objectSchema(map[string]valueSchema{"include": entries, "exclude": entries})
	s["additionalProperties"] = listSchema(1, anyWordSchema())
	s["propertyNames"], s["minProperties"] = valueSchema{"pattern": variablePattern}, 1
	return s
}

func shareSchema() valueSchema {
	s := objectSchema(map[string]valueSchema{
		"memory": {"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": "^(" + sizePattern + "|" + percentPattern + ")$"},
		"cores":  integerSchema(0, 100),
		"gpus":   integerSchema(1, job.MaxGPUs),
	})
	s["anyOf"] = []valueSchema{{"required": []string{"memory"}}, {"required": []string{"cores"}}}
	return s
}

func wordsSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, wordSchema(""))) }

func includedSchema() valueSchema {
	return eitherSchema(wordsSchema(), objectSchema(map[string]valueSchema{"include": wordsSchema(), "exclude": wordsSchema()}))
}

func constraintsSchema() valueSchema {
	words := listSchema(2, wordSchema(""))
	words["maxItems"] = 3
	return listSchema(0, eitherSchema(wordSchema(" "), words))
}

func limitsSchema() valueSchema {
	return objectSchema(map[string]valueSchema{
		"cpus": eitherSchema(enumSchema(job.UnlimitedText), numberSchema()),
		"mem":  eitherSchema(enumSchema(job.UnlimitedText), sizeSchema()),
	})
}

func commandSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, anyWordSchema())) }

func pairsSchema() valueSchema { return mapSchema(anyWordSchema()) }

func envSchema() valueSchema {
	s := pairsSchema()
	s["propertyNames"] = valueSchema{"pattern": "^[^=]+$"}
	return s
}

func secretsSchema() valueSchema {
	s := mapSchema(wordSchema(secretPattern))
	s["propertyNames"] = valueSchema{"pattern": variablePattern}
	return s
}

func fetchSchema() valueSchema {
	return listSchema(0, eitherSchema(wordSchema(""), objectSchema(map[string]valueSchema{
		"uri": wordSchema(""), "path": wordSchema(""), "extract": flagSchema(), "executable": flagSchema(), "cache": flagSchema(),
	}, "uri")))
}

func volumesSchema() valueSchema {
	return listSchema(0, eitherSchema(wordSchema(`^[^:]+:[^:]+(:(ro|rw))?$`), objectSchema(map[string]valueSchema{
		"source": wordSchema(""), "target": wordSchema(""), "read_only": flagSchema(), "driver": wordSchema(""),
	}, "source", "target")))
}

func portsSchema() valueSchema {
	one := valueSchema{"type": []string{"integer", "string"}, "minimum": 1, "maximum": 65535, "pattern": portPattern}
	return eitherSchema(integerSchema(0, job.MaxPorts), listSchema(0, eitherSchema(one, objectSchema(map[string]valueSchema{
		"name": wordSchema(""), "container": portNumberSchema(), "host": portNumberSchema(), "protocol": enumSchema(job.TCP, job.UDP),
	}))))
}

func portNumberSchema() valueSchema { return integerSchema(1, 65535) }

func ulimitsSchema() valueSchema {
	return mapSchema(valueSchema{"type": []string{"integer", "string"}, "minimum": job.Unlimited, "pattern": ulimitPattern})
}

func parametersSchema() valueSchema {
	return listSchema(0, eitherSchema(wordSchema(`^[^=]+=`), objectSchema(map[string]valueSchema{"key": wordSchema(""), "value": anyWordSchema()}, "key")))
}

func healthSchema() valueSchema {
	known := checkSchemas()
	known["grace"] = durationSchema()
	known["failures"] = eitherSchema(enumSchema(neverText), integerSchema(1, job.MaxRetries))
	one := requireOneMethod(objectSchema(known))
	several := listSchema(1, one)
	several["maxItems"] = job.MaxHealthChecks
	return eitherSchema(one, several)
}

func checkSchema() valueSchema { return requireOneMethod(objectSchema(checkSchemas())) }

// requireOneMethod needs exactly one of the ways to check.
func requireOneMethod(s valueSchema) valueSchema {
	s["oneOf"] = []valueSchema{{"required": []string{"command"}}, {"required": []string{"http"}}, {"required": []string{"tcp"}}}
	return s
}

func checkSchemas() map[string]valueSchema {
	one := valueSchema{"not": valueSchema{"required": []string{"port", "port_index"}}}
	port := map[string]valueSchema{"port": portNumberSchema(), "port_index": integerSchema(0, job.MaxPorts-1)}
	http, tcp := objectSchema(map[string]valueSchema{
		"port": port["port"], "port_index": port["port_index"], "path": wordSchema("^/"), "tls": flagSchema(),
	}), objectSchema(port)
	maps.Copy(http, one)
	maps.Copy(tcp, one)
	return map[string]valueSchema{
		"command": commandSchema(),
		"http":    eitherSchema(wordSchema(""), http),
		"tcp":     eitherSchema(portNumberSchema(), tcp),
		"delay":   durationSchema(), "interval": durationSchema(), "timeout": durationSchema(),
	}
}

func serviceSchema() valueSchema {
	return eitherSchema(flagSchema(), objectSchema(map[string]valueSchema{
		"backoff": durationSchema(), "backoff_factor": numberSchema(), "backoff_max": durationSchema(),
		"replace_after": eitherSchema(enumSchema(neverText), durationSchema()),
	}))
}

func afterSchema() valueSchema {
	one := objectSchema(map[string]valueSchema{"job": wordSchema(""), "state": enumSchema(job.OutcomeFinished, job.OutcomeEnded, job.OutcomeFailed)}, "job")
	return eitherSchema(wordSchema(""), listSchema(1, eitherSchema(wordSchema(""), one)))
}

func scheduleSchema() valueSchema {
	return eitherSchema(wordSchema(""), objectSchema(map[string]valueSchema{
		"cron": wordSchema(""), "time_zone": wordSchema(""), "overlap": enumSchema(job.SkipOverlap, job.AllowOverlap, job.ReplaceOverlap), "history": integerSchema(1, job.MaxHistory),
	}, "cron"))
}
