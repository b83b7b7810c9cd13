package report

// The part of SARIF 2.1.0 that is written.

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool              sarifTool         `json:"tool"`
	AutomationDetails sarifAutomation   `json:"automationDetails"`
	Invocations       []sarifInvocation `json:"invocations"`
	LogicalLocations  []sarifLogical    `json:"logicalLocations"`
	Results           []sarifResult     `json:"results"`
	Properties        sarifProperties   `json:"properties"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

// sarifAutomation keeps the runs of several targets apart.
type sarifAutomation struct {
	ID string `json:"id"`
}

type sarifRule struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Short      sarifText  `json:"shortDescription"`
	Full       sarifText  `json:"fullDescription"`
	HelpURI    string     `json:"helpUri,omitempty"`
	Help       sarifText  `json:"help"`
	Default    sarifLevel `json:"defaultConfiguration"`
	Properties sarifTags  `json:"properties"`
}

type sarifText struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

type sarifLevel struct {
	Level string `json:"level"`
}

type sarifTags struct {
	Tags     []string `json:"tags"`
	Severity string   `json:"severity"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Kind         string            `json:"kind"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	Line int `json:"startLine"`
}

type sarifLogical struct {
	Name      string `json:"name"`
	Qualified string `json:"fullyQualifiedName"`
	Kind      string `json:"kind"`
}

type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Start         string              `json:"startTimeUtc"`
	End           string              `json:"endTimeUtc"`
	Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	Overrides     []sarifOverride     `json:"ruleConfigurationOverrides,omitempty"`
}

type sarifNotification struct {
	Level   string          `json:"level"`
	Rule    *sarifReference `json:"associatedRule,omitempty"`
	Message sarifText       `json:"message"`
}

type sarifReference struct {
	ID    string `json:"id"`
	Index int    `json:"index"`
}

// sarifOverride says that a rule was left out.
type sarifOverride struct {
	Descriptor    sarifReference `json:"descriptor"`
	Configuration struct {
		Enabled bool `json:"enabled"`
	} `json:"configuration"`
}

type sarifProperties struct {
	Oracle   string `json:"oracle"`
	Contract string `json:"contract,omitempty"`
	Requests int    `json:"requests"`
	Score    string `json:"score"`
}
