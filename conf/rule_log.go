package conf

// log reads: log, and any number of: destination syslog|stderr|file NAME, min-level N; in any order (libvma, config_parser.y). They have
// no effect, as in VMA: see VMA_LOG_FILE and VMA_TRACELEVEL. VMA's own scanner misspells two of the words.
func (p *parser) log() error {
	p.read()
	for {
		var err error
		switch t := p.t; {
		case t.is(word, "min-level"):
			err = p.level()
		case t.is(word, "destination"):
			err = p.destination()
		case t.kind == unknown:
			return p.fail(t, "%v: want destination, min-level, use, application-id or log", t)
		default:
			return nil // of the next statement
		}
		if err != nil {
			return err
		}
	}
}

func (p *parser) level() error {
	p.read()
	if p.t.kind != number {
		return p.fail(p.t, "%v: want a number", p.t)
	}
	p.read()
	return nil
}

func (p *parser) destination() error {
	p.read()
	switch {
	case p.t.kind == word && (p.t.text == "syslog" || p.t.text == "stderr" || p.t.text == "ystderr"):
		p.read()
	case p.t.kind == word && (p.t.text == "file" || p.t.text == "yfile"):
		if name := p.name(); name.kind != word {
			return p.fail(name, "%v: want the name of a file", name)
		}
		p.read()
	default:
		return p.fail(p.t, "%v: want syslog, stderr or file", p.t)
	}
	return nil
}
